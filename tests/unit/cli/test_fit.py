"""Tables on a terminal: what gives way where there is not room for everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nemo_airflow_provider.cli.fit import Fit, fitted
from tests.unit.cli.conftest import Nemo
from tests.unit.cli.fake_server import Answer, FakeServer
from tests.unit.cli.shapes import JOBS, job, line, logs, page, step

COLUMNS = ["name", "description", "status", "created_at"]
MOMENT, AGO = "2026-12-01T10:38:53Z", "3h ago"


def fit(name: str, description: str, width: int, *, may_leave_out: bool = True) -> Fit:
    rows = [[[name, description, "completed", created]] for created in (MOMENT, AGO)]
    return fitted(COLUMNS, rows, width, may_leave_out=may_leave_out)


@pytest.mark.parametrize(
    ("name", "description", "shown", "widths"),
    [
        ("n" * 10, "d" * 10, ["n" * 10, "d" * 10, "completed", MOMENT], [10, 11, 9, 20]),
        ("n" * 18, "d" * 50, ["n" * 18, "d" * 50, "completed", MOMENT], [18, 20, 9, 20]),
        ("n" * 19, "d" * 50, ["n" * 19, "d" * 50, "completed", AGO], [19, 29, 9, 10]),
        ("n" * 28, "d" * 50, ["n" * 28, "d" * 50, "completed", AGO], [28, 20, 9, 10]),
        ("n" * 29, "d" * 50, ["n" * 29, "completed", MOMENT], [29, 9, 20]),
        ("n" * 51, "", ["n" * 51, "completed", AGO], [51, 9, 10]),
        ("n" * 63, "", ["n" * 63, "completed"], [63, 9]),
    ],
)
def test_what_gives_way_at_80_characters(name: str, description: str, shown: list[str], widths: list[int]) -> None:
    found = fit(name, description, 80)
    assert (found.body, found.widths) == ([shown], widths)
    assert sum(widths) + 3 * len(widths) + 1 <= 80
    assert [column for column in COLUMNS if column not in found.columns] == found.left_out


def test_the_least_is_as_wide_as_it_is() -> None:
    found = fit("n" * 63, "d" * 50, 40)
    assert (found.columns, found.widths) == (["name", "status"], [63, 9])


def test_columns_that_were_asked_for_stay() -> None:
    found = fit("n" * 63, "d" * 50, 40, may_leave_out=False)
    assert (found.columns, found.left_out, found.widths) == (COLUMNS, [], [63, 20, 9, 10])


def test_wide_characters_count_twice() -> None:
    assert fit("n", "名" * 8, 80).widths[1] == 16


class TestAtATerminal:
    @pytest.fixture
    def terminal(self, on_terminal: Nemo, monkeypatch: pytest.MonkeyPatch) -> Nemo:
        monkeypatch.setenv("COLUMNS", "80")
        return on_terminal

    def test_a_job_is_a_line(self, server: FakeServer, terminal: Nemo) -> None:
        server.on("GET", JOBS, Answer(page(job("train-model-17", description="a text of\nseveral " + "words " * 9))))
        result = terminal("jobs", "list")
        assert result.out == (
            "┏━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━┓\n"
            "┃ name           ┃ description              ┃ status    ┃ created_at           ┃\n"
            "┡━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━┩\n"
            "│ train-model-17 │ a text of several words… │ completed │ 2026-12-01T10:38:53Z │\n"
            "└────────────────┴──────────────────────────┴───────────┴──────────────────────┘\n"
        )
        assert "No room" not in result.err

    def test_a_long_name_is_whole_and_what_has_no_room_is_told(self, server: FakeServer, terminal: Nemo) -> None:
        created = (datetime.now(UTC) - timedelta(days=3)).isoformat()
        server.on("GET", JOBS, Answer(page(job("n" * 51, description="text", created_at=created))))
        result = terminal("jobs", "list")
        assert result.out.splitlines()[3] == f"│ {'n' * 51} │ completed │ 3d ago     │"
        assert "  • No room for description. Use a wider terminal, -c or -f json." in result.err
        assert result.code == 0

    def test_whole_values_are_folded(self, server: FakeServer, terminal: Nemo) -> None:
        words = [f"word-{number}" for number in range(20)]
        server.on("GET", JOBS, Answer(page(job("n" * 20, description=" ".join(words)))))
        rows = [row.split("│") for row in terminal("jobs", "list", "--no-truncate").out.splitlines()[3:-1]]
        assert " ".join(row[2].strip() for row in rows).split() == words
        assert rows[0][1].strip() == "n" * 20
        assert rows[0][4].strip() == "2026-12-01T10:38:53.471518+00:00"

    def test_asked_for_columns_are_shown_in_any_width(self, server: FakeServer, terminal: Nemo) -> None:
        server.on("GET", JOBS, Answer(page(job("n" * 60, description="text", project="p" * 30))))
        result = terminal("jobs", "list", "-c", "name,project,description")
        assert result.out.splitlines()[3] == f"│ {'n' * 60} │ {'p' * 19}… │ text        │"
        assert "No room" not in result.err

    def test_steps_and_log_lines(self, server: FakeServer, terminal: Nemo) -> None:
        server.on("GET", f"{JOBS}/pz-1/steps", Answer(page(step())))
        server.on("GET", f"{JOBS}/pz-1/logs", Answer(logs(line("m" * 60))))
        steps = terminal("jobs", "steps", "list", "pz-1").out.splitlines()
        assert steps[3] == "│ s-one │ default   │ completed │ 2026-12-01T10:38:53Z │"
        lines = terminal("jobs", "get-logs", "pz-1").out.splitlines()
        assert lines[3] == f"│ 2026-12-01T10:47:00Z │ {'m' * 47}... │"
