"""`airflow nemo sweep`: what it prints, and how it ends."""

from __future__ import annotations

import argparse

import pytest

from nemo_airflow_provider.airflow_cli import sweep


@pytest.mark.parametrize(
    ("done", "undone", "output", "expected"),
    [
        ({}, 0, "table", (0, "", "Nothing to do.\n")),
        ({"removed": 3}, 0, "table", (0, "removed: 3\n", "Swept.\n")),
        ({}, 1, "table", (1, "", "Left for the next sweep: 1.\n")),
        ({"removed": 3}, 2, "table", (1, "removed: 3\n", "Left for the next sweep: 2.\n")),
        ({}, 1, "json", (1, "{}\n", "Left for the next sweep: 1.\n")),
        ({"removed": 3}, 0, "json", (0, '{"removed": 3}\n', "")),
    ],
)
def test_what_was_not_done_is_no_success(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    done: dict[str, int],
    undone: int,
    output: str,
    expected: tuple[int, str, str],
) -> None:
    monkeypatch.setattr(sweep, "swept", lambda: (done, undone))
    with pytest.raises(SystemExit) as ended:
        sweep.sweep(argparse.Namespace(output=output))
    captured = capsys.readouterr()
    assert (ended.value.code or 0, captured.out, captured.err) == expected
