"""Findings as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import yaml

from nemo_airflow_provider.cli.tables import as_table
from nemo_airflow_provider.cli.terminal import clean, clean_line
from nemo_airflow_provider.doctor.configfile import MergedProfile
from nemo_airflow_provider.doctor.findings import Finding, Level

#: Worst first: what has to be done before anything else.
_ORDER = (Level.ERROR, Level.WARNING, Level.NOTE, Level.OK)
_PLURALS = {Level.ERROR: "errors", Level.WARNING: "warnings", Level.NOTE: "notes", Level.OK: "fine"}


def as_lines(findings: Sequence[Finding], *, verbose: bool = False, named: bool = True) -> list[tuple[Level, str]]:
    """One line for each finding, worst first.

    :param verbose: with what is fine
    :param named: with the name of the check
    """
    shown = [finding for finding in findings if verbose or finding.level is not Level.OK]
    width = max((len(finding.check) + 2 for finding in shown), default=0) if named else 0
    return [
        (finding.level, _line(finding, width))
        for finding in sorted(shown, key=lambda finding: _ORDER.index(finding.level))
    ]


def _line(finding: Finding, width: int) -> str:
    remedy = f" → {finding.remedy}" if finding.remedy else ""
    check = finding.check.ljust(width) if width else ""
    return clean_line(f"{finding.level:<7}  {check}{finding.message}{remedy}")


def summary(findings: Sequence[Finding]) -> str:
    """How many there are of each level, worst first."""
    counted = Counter(finding.level for finding in findings)
    words = [f"{counted[level]} {_word(level, counted[level])}" for level in _ORDER if counted[level]]
    return ", ".join(words) or "fine"


def _word(level: Level, number: int) -> str:
    return str(level) if number == 1 and level is not Level.OK else _PLURALS[level]


def as_json(findings: Sequence[Finding], **more: Any) -> str:
    """All findings, those that are fine too.

    :param more: further keys of the document
    """
    worst = next((level for level in _ORDER if any(finding.level is level for finding in findings)), Level.OK)
    return json.dumps({"result": worst, "findings": [asdict(finding) for finding in findings], **more}, indent=2)


def profiles_table(profiles: Sequence[MergedProfile], width: int | None) -> str:
    """The merged profiles for people, each with what differs from its backend's defaults.

    :param width: of the terminal; None: as wide as needed
    """
    rows = [
        [
            str(merged.profile),
            merged.profile.backend + ("" if merged.provided else " (not installed)"),
            merged.origin,
            "\n".join(f"{key}: {_flow(value)}" for key, value in merged.changed.items()),
        ]
        for merged in profiles
    ]
    return as_table(("profile", "backend", "from", "not at default"), rows, width=width, clean=clean)


def profiles_data(profiles: Sequence[MergedProfile]) -> list[dict[str, Any]]:
    """The merged profiles for programs, with every key."""
    return [
        {
            "provider": merged.profile.provider,
            "profile": merged.profile.name,
            "backend": merged.profile.backend,
            "provided": merged.provided,
            "origin": merged.origin,
            "config": merged.profile.config.model_dump(mode="json"),
        }
        for merged in profiles
    ]


def _flow(value: object) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()
