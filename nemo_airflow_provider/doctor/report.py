"""Findings as text for people and as JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from nemo_airflow_provider.backends.registry import Lack
from nemo_airflow_provider.cli.terminal import clean, clean_line
from nemo_airflow_provider.doctor.configfile import MergedProfile
from nemo_airflow_provider.doctor.findings import Finding, Level

#: Worst first: what has to be done before anything else.
_ORDER = (Level.ERROR, Level.WARNING, Level.NOTE, Level.OK)
_PLURALS = {Level.ERROR: "errors", Level.WARNING: "warnings", Level.NOTE: "notes", Level.OK: "fine"}

#: Of what is said of a profile: columns of the widest label with its gap, and where YAML begins.
_LABEL = 11
_INDENT = "    "
#: Columns; a terminal may say that it has none.
_NARROWEST = 40
#: PyYAML breaks a line behind the word that goes beyond its width.
_OVERHANG = 12


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


def profiles_text(profiles: Sequence[MergedProfile], width: int) -> str:
    """The merged profiles for people: of each a paragraph, with what differs from its backend's defaults as YAML.

    :param width: columns; long words go beyond
    """
    return "\n\n".join(clean(_paragraph(merged, width)) for merged in profiles)


def _paragraph(merged: MergedProfile, width: int) -> str:
    lack = merged.lack
    said = {
        "backend": merged.profile.backend,
        "runs here": "yes" if lack is None else f"no: {lack.reason} → {lack.remedy}",
        "from": merged.origin,
        "changed": "" if merged.changed else "nothing",
    }
    lines = [line for label, text in said.items() for line in _wrapped(f"  {label:<{_LABEL}}", text, width)]
    return "\n".join([str(merged.profile), *lines, *_yaml(merged.changed, width)])


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width=max(width, _NARROWEST),
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [label.rstrip()]


def _yaml(changed: Mapping[str, Any], width: int) -> list[str]:
    """Values as YAML: what holds no further list or mapping on one line, if it fits."""
    room = max(width, _NARROWEST) - len(_INDENT) - _OVERHANG
    lines = []
    for key, value in changed.items():
        # PyYAML would put a mapping of nothing but plain values into braces, with its one key.
        style = None if isinstance(value, list | dict) else False
        text = yaml.safe_dump({key: value}, default_flow_style=style, width=room, allow_unicode=True, sort_keys=False)
        lines += [f"{_INDENT}{line}".rstrip() for line in text.splitlines()]
    return lines


def profiles_data(profiles: Sequence[MergedProfile]) -> list[dict[str, Any]]:
    """The merged profiles for programs, with every key."""
    return [
        {
            "provider": merged.profile.provider,
            "profile": merged.profile.name,
            "backend": merged.profile.backend,
            **_standing(merged.lack),
            "origin": merged.origin,
            "config": merged.profile.config.model_dump(mode="json"),
        }
        for merged in profiles
    ]


def _standing(lack: Lack | None) -> dict[str, Any]:
    return {"provided": lack is None, "reason": lack.reason if lack else "", "remedy": lack.remedy if lack else ""}
