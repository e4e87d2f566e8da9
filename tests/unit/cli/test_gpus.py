"""`nemo gpus`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.conftest import Nemo
from tests.unit.cli.fake_server import Answer, FakeServer
from tests.unit.cli.shapes import CREATED

GPUS = "/apis/jobs/v2/gpus"
STEP = {"workspace": "default", "job": "big", "step": "train", "task": "task-0123456789ab", "since": CREATED}
DEVICES = [
    {"id": "0", "name": "H200", "uuid": "GPU-a", "state": "taken", "holder": STEP},
    {"id": "1", "name": "H200", "uuid": "GPU-b", "state": "taken", "holder": None},
    {"id": "2", "name": "H200", "uuid": "GPU-c", "state": "free", "holder": None},
]
WAITER = {"position": 1, "gpus": 2, **STEP, "job": "next"}
HIDDEN = {"position": 2, "gpus": 1, "since": CREATED, "workspace": None, "job": None, "step": None, "task": None}


def engine(*devices: dict[str, Any], waiters: tuple[dict[str, Any], ...] = (), **changes: Any) -> dict[str, Any]:
    common = {"profiles": ["gpu/default"], "backend": "docker", "error": None}
    return common | {"devices": list(devices), "waiters": list(waiters)} | changes


def listing(*engines: dict[str, Any], note: str | None = None) -> Answer:
    return Answer({"engines": list(engines), "note": note})


def rows(table: str) -> list[list[str]]:
    """The cells of each row."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if line.startswith("│")]


def test_a_table_of_gpus_and_below_it_who_waits(server: FakeServer, on_terminal: Nemo) -> None:
    server.on("GET", GPUS, listing(engine(*DEVICES, waiters=(WAITER, HIDDEN))))
    told = on_terminal("gpus")
    assert told.code == 0
    gpus, waiting = told.out.split("Waiting:")
    moment = "2026-12-01T10:38:53Z"
    assert rows(gpus) == [
        ["0", "H200", "taken", "default", "big", "train", moment],
        ["1", "H200", "taken", "", "", "", ""],
        ["2", "H200", "free", "", "", "", ""],
    ]
    assert rows(waiting) == [
        ["1", "2", "default", "next", "train", moment],
        ["2", "1", "", "", "", moment],
    ]


def test_a_host_without_gpus_is_told(server: FakeServer, nemo: Nemo) -> None:
    server.on("GET", GPUS, listing(engine()))
    assert nemo("gpus").err == "gpu/default: its host has no GPU that jobs may use\n"


def test_several_engines_are_told_apart_by_their_profiles(server: FakeServer, nemo: Nemo) -> None:
    far = engine(DEVICES[2], profiles=["gpu/far", "gpu/farther"])
    server.on("GET", GPUS, listing(engine(DEVICES[2]), far))
    head, *lines = nemo("gpus", "-f", "csv").out.splitlines()
    assert head == "gpu,name,state,workspace,job,step,since,profiles"
    assert lines == ["2,H200,free,,,,,gpu/default", '2,H200,free,,,,,"gpu/far, gpu/farther"']


def test_json_is_the_whole_answer(server: FakeServer, nemo: Nemo) -> None:
    answer = listing(engine(*DEVICES, waiters=(WAITER,)), engine(error="No answer. Start it."))
    server.on("GET", GPUS, answer)
    told = nemo("gpus")
    assert json.loads(told.out)["engines"][0]["waiters"] == [WAITER]
    assert told.err == "gpu/default: No answer. Start it.\n"


def test_why_nothing_was_asked(server: FakeServer, nemo: Nemo) -> None:
    server.on("GET", GPUS, listing(note="Engines are asked elsewhere."))
    told = nemo("gpus", "-f", "table")
    assert (told.code, told.out, told.err) == (0, "No data to display\n", "Engines are asked elsewhere.\n")


def test_python_that_does_the_same(server: FakeServer, nemo: Nemo) -> None:
    assert "jobs.list_gpus()" in nemo("gpus", "-f", "code").out
    assert server.seen == []


@pytest.mark.parametrize("answer", [[], {}, {"engines": [1]}, {"engines": [{"devices": []}]}])
def test_an_answer_that_is_none(server: FakeServer, nemo: Nemo, answer: object) -> None:
    server.on("GET", GPUS, Answer(answer))
    told = nemo("gpus")
    assert told.code == 3
    assert "Unexpected error" not in told.err
