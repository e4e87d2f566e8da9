"""What our files in a control directory say. The workload may have written them: what is not as we write it is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeGuard, cast, get_args

from nemo_airflow_provider.backends.base import StopReason
from nemo_airflow_provider.model.names import WorkloadKey

_EXIT_CODES = range(-64, 256)
_PROCESS_NUMBERS = range(2, 1 << 31)


@dataclass(frozen=True, slots=True)
class Started:
    """`started`, noted before the command is let go.

    :param pid: of the main process, which is also its group and session
    :param born: its `Process.born`; None where there is no `/proc`
    :param boot: the boot that these numbers belong to
    :param pipes: inode numbers of the pipes that it writes to
    :param alive: inode number of the file that its supervisor has locked; None of one that did not say
    """

    pid: int
    born: int | None
    boot: str
    pipes: tuple[int, ...]
    alive: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """`exit.json`, the last that the supervisor notes.

    :param exit_code: of the main process; negative for a signal
    :param stopped: why we ended it, if we did
    :param whole: whether all of its output could be written
    """

    exit_code: int
    stopped: StopReason | None
    whole: bool = True


def started_of(record: Mapping[str, Any] | None) -> Started | None:
    """`started` of a JSON object."""
    if record is None:
        return None
    pid, born, boot, pipes = (record.get(name) for name in ("pid", "born", "boot", "pipes"))
    if not _is_number(pid) or pid not in _PROCESS_NUMBERS or not isinstance(boot, str):
        return None
    if not (born is None or _is_number(born)) or not isinstance(pipes, list) or not all(map(_is_number, pipes)):
        return None
    alive = record.get("alive")
    return Started(pid, born, boot, tuple(pipes), alive if _is_number(alive) else None)


def ended_of(record: Mapping[str, Any] | None) -> Ended | None:
    """`exit.json` of a JSON object."""
    code = record.get("exit_code") if record is not None else None
    if record is None or not _is_number(code) or code not in _EXIT_CODES:
        return None
    stopped = record.get("stopped")
    known = isinstance(stopped, str) and stopped in get_args(StopReason)
    whole = record.get("whole") is not False
    return Ended(code, cast(StopReason, stopped) if known else None, whole)


def key_of(record: Mapping[str, Any] | None) -> WorkloadKey | None:
    """`workload.json` of a JSON object."""
    if record is None or set(record) != {field.name for field in fields(WorkloadKey)}:
        return None
    numbers = [record["generation"], record["start"]]
    texts = [value for name, value in record.items() if name not in ("generation", "start")]
    if not all(map(_is_number, numbers)) or not all(isinstance(text, str) for text in texts):
        return None
    return WorkloadKey(**record)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
