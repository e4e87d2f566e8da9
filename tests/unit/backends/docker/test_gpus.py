"""How GPUs are given out; the engine is a list of containers here, the locks and tickets are real."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.gpus import GpuPool, claim, leases
from nemo_airflow_provider.backends.docker.nvml import Device
from nemo_airflow_provider.backends.docker.tickets import Line
from nemo_airflow_provider.errors import CapacityError, StartError
from nemo_airflow_provider.model.names import WorkloadKey
from tests.unit.backends.docker.make import KEY, workload

FIRST = "Another worker of this engine was given the same GPUs first; asking again."
GONE = "Another worker of this engine was given the same GPUs, and has yet to give them up."


@dataclass
class Engine:
    """An engine's list of containers."""

    listed: list[dict[str, Any]] = field(default_factory=list)

    def containers(self, *, all: bool, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        assert all
        return [
            each
            for each in self.listed
            if each["State"] in filters["status"] and all_in(filters["label"], each["Labels"] or {})
        ]

    def start(self, name: str) -> None:
        for each in self.listed:
            if each["Id"] == name:
                each["State"] = "running"

    def remove_container(self, name: str, *, force: bool, v: bool) -> None:
        assert force and v
        self.listed = [each for each in self.listed if each["Id"] != name]

    def holds(self, name: str, *gpus: int, key: WorkloadKey = KEY, created: int = 1, state: str = "running") -> None:
        own = labels.of_workload(workload(key), "docker", gpus)
        self.listed.append({"Id": name, "Created": created, "State": state, "Labels": own})


def all_in(asked: list[str], found: dict[str, str]) -> bool:
    return all(each in found for each in asked)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def start(number: int) -> WorkloadKey:
    return replace(KEY, start=number)


@dataclass
class Host:
    """Pools of several processes on one host."""

    place: Path
    engine: Engine
    total: int = 4

    def pool(self) -> GpuPool:
        return GpuPool(Line("host/E", self.place), lambda: [Device(each) for each in range(self.total)])

    def take(self, pool: GpuPool, key: WorkloadKey, number: int) -> tuple[int, ...]:
        """Have a container with so many GPUs."""
        with pool.granted(cast("Any", self.engine), key, number) as ids:
            self.engine.holds(key.task, *ids, key=key)
        return ids

    def told(self, pool: GpuPool, key: WorkloadKey, number: int) -> str:
        with pytest.raises(CapacityError) as error:
            self.take(pool, key, number)
        return str(error.value)


@pytest.fixture
def host(tmp_path: Path, engine: Engine) -> Host:
    return Host(tmp_path, engine)


@pytest.mark.parametrize(
    ("state", "holds"),
    [
        ("created", True),
        ("restarting", True),
        ("running", True),
        ("paused", True),
        ("removing", False),
        ("exited", False),
        ("dead", False),
    ],
)
def test_a_lease_dies_with_its_container(engine: Engine, state: str, holds: bool) -> None:
    engine.holds("c", 0, 2, state=state)
    found = leases(cast("Any", engine))
    assert [(each.container, each.gpus, each.workload) for each in found] == ([("c", (0, 2), KEY)] if holds else [])


def test_containers_of_others_are_no_obstacle(engine: Engine) -> None:
    engine.listed = [
        {"Id": "a", "Created": 1, "State": "running", "Labels": None},
        {"Id": "b", "Created": 1, "State": "running", "Labels": {labels.GPUS: "1,x,²"}},
    ]
    [lease] = leases(cast("Any", engine))
    assert (lease.container, lease.gpus, lease.workload) == ("b", (1,), None)


def test_free_ones_are_given_out(host: Host) -> None:
    pool = host.pool()
    host.engine.holds("c", 0, 2)
    assert host.take(pool, start(1), 1) == (1,)
    assert host.take(pool, start(2), 1) == (3,)
    said = "Not enough GPUs available. Requested 1, available 0 out of 4 total."
    assert host.told(pool, start(3), 1) == said


def test_a_host_without_gpus(host: Host) -> None:
    host.total = 0
    with pytest.raises(StartError) as told:
        host.take(host.pool(), KEY, 1)
    assert str(told.value) == "No GPUs available on this system. GPU jobs require a system with NVIDIA GPUs."


def test_more_than_there_will_ever_be(host: Host) -> None:
    host.engine.holds("c", 0)
    with pytest.raises(StartError) as told:
        host.take(host.pool(), KEY, 5)
    assert str(told.value) == "Not enough GPUs available. Requested 5, available 3 out of 4 total."


def test_small_requests_do_not_starve_a_large_one(host: Host) -> None:
    large, small, smaller = host.pool(), host.pool(), host.pool()
    host.engine.holds("c", 0)
    said = "Not enough GPUs available. Requested 4, available 3 out of 4 total."
    assert host.told(large, start(1), 4) == said
    assert host.told(small, start(2), 1).endswith("available 3 out of 4 total. 1 request came before it.")
    assert host.told(smaller, start(3), 1).endswith("available 3 out of 4 total. 2 requests came before it.")
    # Asked again, everybody has the same place.
    assert host.told(large, start(1), 4) == said
    assert host.told(small, start(2), 1).endswith(" 1 request came before it.")
    host.engine.listed.clear()
    assert host.take(large, start(1), 4) == (0, 1, 2, 3)
    host.engine.listed.clear()
    assert host.told(smaller, start(3), 1).endswith(" 1 request came before it.")
    assert host.take(small, start(2), 1) == (0,)
    assert host.take(smaller, start(3), 1) == (1,)
    assert Line("host/E", host.place).waiters() == []


def test_who_leaves_the_line_holds_nobody_up(host: Host) -> None:
    one, other = host.pool(), host.pool()
    host.engine.holds("c", 0)
    host.told(one, start(1), 4)
    host.told(other, start(2), 1)
    one.leave(start(1))
    one.leave(start(1))
    assert host.take(other, start(2), 1) == (1,)


def test_a_container_that_could_not_be_made_keeps_its_place(host: Host) -> None:
    one, other = host.pool(), host.pool()
    host.engine.holds("c", 0, 1, 2, 3)
    host.told(one, start(1), 1)
    host.engine.listed.clear()
    with suppress(OSError), one.granted(cast("Any", host.engine), start(1), 1):
        raise OSError
    assert host.told(other, start(2), 4).endswith(" 1 request came before it.")
    assert host.take(one, start(1), 1) == (0,)


def test_what_waits_is_told_with_its_name(host: Host) -> None:
    host.engine.holds("c", 0)
    pool = host.pool()
    host.told(pool, KEY, 4)
    [waiter] = Line("host/E", host.place).waiters()
    assert (waiter.workspace, waiter.job, waiter.step, waiter.task, waiter.gpus) == (
        KEY.workspace,
        KEY.job,
        KEY.step,
        KEY.task,
        4,
    )
    pool.leave(KEY)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([], None),
        ([("other", (2,), 1, "running")], None),
        ([("other", (1,), 4, "exited")], None),
        # One that runs, or did, keeps what it has; of two that do not, the earlier, as soon as the other has gone.
        ([("other", (1,), 4, "created")], FIRST),
        ([("other", (1,), 6, "created")], GONE),
        ([("other", (1,), 6, "running")], FIRST),
        ([("other", (1,), 6, "paused")], FIRST),
        ([("late", (0,), 6, "created"), ("early", (1,), 4, "created")], FIRST),
        # Made in the same second: the ids decide.
        ([("a", (1,), 5, "created")], FIRST),
        ([("z", (1,), 5, "created")], GONE),
    ],
)
def test_two_hosts_that_share_an_engine(
    engine: Engine, others: list[tuple[str, tuple[int, ...], int, str]], said: str | None
) -> None:
    engine.holds("own", 0, 1, created=5, state="created")
    for name, gpus, created, state in others:
        engine.holds(name, *gpus, created=created, state=state)
    assert claimed(engine, "own") == said
    assert ("own" in [each["Id"] for each in engine.listed]) is (said != FIRST)


def claimed(engine: Engine, name: str) -> str | None:
    """Claim the GPUs of a container; what is said where it is not to be started."""
    own = next((each["Labels"] for each in engine.listed if each["Id"] == name), {})
    try:
        claim(cast("Any", engine), {"Id": name, "Config": {"Labels": own}})
    except CapacityError as error:
        return str(error)
    return None


@pytest.mark.parametrize("created", [(5, 5), (5, 6), (6, 5)])
def test_whenever_two_hosts_look_one_container_is_started(created: tuple[int, int]) -> None:
    """Each makes its container, claims its GPUs and then starts it; the engine's times say nothing of what is seen."""
    orders = set(permutations(["make a", "claim a", "start a", "make b", "claim b", "start b"]))
    alternatives = [
        order
        for order in orders
        if all(
            [step for step in order if step.endswith(name)] == [f"{verb} {name}" for verb in ("make", "claim", "start")]
            for name in "ab"
        )
    ]
    assert len(alternatives) == 20
    for order in alternatives:
        engine, free = Engine(), set()
        for step in order:
            verb, name = step.split()
            if verb == "make":
                engine.holds(name, 0, created=created["ab".index(name)], state="created")
            elif verb == "claim" and claimed(engine, name) is None:
                free.add(name)
            elif verb == "start" and name in free:
                engine.start(name)
        # Who was not let go ahead asks again.
        for _ in range(2):
            for name in [each["Id"] for each in engine.listed if each["State"] == "created"]:
                if claimed(engine, name) is None:
                    engine.start(name)
        assert [each["State"] for each in engine.listed] == ["running"], order


def test_a_container_without_gpus_is_nobodys_rival(engine: Engine) -> None:
    claim(cast("Any", None), {"Id": "own", "Config": {"Labels": None}})
    engine.holds("other", 0)
    claim(cast("Any", engine), {"Id": "removed", "Config": {"Labels": {labels.GPUS: "0"}}})
