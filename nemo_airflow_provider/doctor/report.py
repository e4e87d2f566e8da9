"""Findings as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nemo_airflow_provider.cli.terminal import clean_line
from nemo_airflow_provider.doctor.findings import Finding, Level

#: Worst first: what has to be done before anything else.
_ORDER = (Level.ERROR, Level.WARNING, Level.NOTE, Level.OK)
_PLURALS = {Level.ERROR: "errors", Level.WARNING: "warnings", Level.NOTE: "notes", Level.OK: "fine"}


def as_lines(findings: Sequence[Finding], *, verbose: bool) -> list[tuple[Level, str]]:
    """One line for each finding, worst first.

    :param verbose: with what is fine
    """
    shown = [finding for finding in findings if verbose or finding.level is not Level.OK]
    width = max((len(finding.check) for finding in shown), default=0)
    return [
        (finding.level, _line(finding, width))
        for finding in sorted(shown, key=lambda finding: _ORDER.index(finding.level))
    ]


def _line(finding: Finding, width: int) -> str:
    remedy = f" → {finding.remedy}" if finding.remedy else ""
    return clean_line(f"{finding.level:<7}  {finding.check:<{width}}  {finding.message}{remedy}")


def summary(findings: Sequence[Finding]) -> str:
    """How many there are of each level, worst first."""
    counted = Counter(finding.level for finding in findings)
    words = [f"{counted[level]} {_word(level, counted[level])}" for level in _ORDER if counted[level]]
    return ", ".join(words) or "nothing was checked"


def _word(level: Level, number: int) -> str:
    return str(level) if number == 1 and level is not Level.OK else _PLURALS[level]


def as_json(findings: Sequence[Finding], **more: Any) -> str:
    """All findings, those that are fine too.

    :param more: further keys of the document
    """
    worst = next((level for level in _ORDER if any(finding.level is level for finding in findings)), Level.OK)
    return json.dumps({"result": worst, "findings": [asdict(finding) for finding in findings], **more}, indent=2)
