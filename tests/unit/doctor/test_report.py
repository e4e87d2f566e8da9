"""How findings are printed."""

from __future__ import annotations

import json

import pytest

from nemo_airflow_provider.doctor.findings import Finding, Level, error, exit_code, fine, note, warning
from nemo_airflow_provider.doctor.report import as_json, as_lines, summary

FINDINGS = [
    fine("a", "Good."),
    warning("bb", "Not\x1b[31m so\ngood.", "Do this."),
    error("ccc", "Bad.", "Do that."),
    note("d", "Known?", "Know it."),
]


def test_lines_are_worst_first_and_one_each() -> None:
    assert as_lines(FINDINGS, verbose=False) == [
        (Level.ERROR, "error    ccc  Bad. → Do that."),
        (Level.WARNING, "warning  bb   Not so good. → Do this."),
        (Level.NOTE, "note     d    Known? → Know it."),
    ]
    assert as_lines(FINDINGS, verbose=True)[-1] == (Level.OK, "ok       a    Good.")


def test_json_has_everything() -> None:
    shown = json.loads(as_json(FINDINGS, file="x"))
    assert (shown["result"], shown["file"], len(shown["findings"])) == ("error", "x", 4)
    assert shown["findings"][0] == {"level": "ok", "check": "a", "message": "Good.", "remedy": ""}


def test_summary() -> None:
    assert summary(FINDINGS) == "1 error, 1 warning, 1 note, 1 fine"
    assert summary(FINDINGS * 2) == "2 errors, 2 warnings, 2 notes, 2 fine"


@pytest.mark.parametrize(
    ("findings", "code", "strict_code"),
    [([], 0, 0), (FINDINGS[:1], 0, 0), (FINDINGS[3:], 0, 0), (FINDINGS[1:2], 0, 1), (FINDINGS[2:3], 1, 1)],
)
def test_exit_codes(findings: list[Finding], code: int, strict_code: int) -> None:
    assert exit_code(findings, strict=False) == code
    assert exit_code(findings, strict=True) == strict_code
