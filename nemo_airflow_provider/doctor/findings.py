"""What a check finds: how bad, about what, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad; the words are part of the JSON output."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    :param check: what was looked at, one or two words; the same for all findings of a check
    :param message: what was found, on one line
    :param remedy: what to do about it; empty where nothing is to be done
    """

    level: Level
    check: str
    message: str
    remedy: str = ""


def fine(check: str, message: str) -> Finding:
    """A thing that is as it should be."""
    return Finding(Level.OK, check, message)


def note(check: str, message: str, remedy: str) -> Finding:
    """A thing that may be meant so, and that whoever answers for the installation should know."""
    return Finding(Level.NOTE, check, message, remedy)


def warning(check: str, message: str, remedy: str) -> Finding:
    """Jobs run all the same, but not as well, or not as safely."""
    return Finding(Level.WARNING, check, message, remedy)


def error(check: str, message: str, remedy: str) -> Finding:
    """Jobs cannot be made or run."""
    return Finding(Level.ERROR, check, message, remedy)


def exit_code(findings: Iterable[Finding], *, strict: bool) -> int:
    """0 when there are no errors, else 1.

    :param strict: whether warnings count as errors
    """
    bad = {Level.ERROR, Level.WARNING} if strict else {Level.ERROR}
    return int(any(finding.level in bad for finding in findings))
