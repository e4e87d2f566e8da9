"""What `/proc` and an access log say about processes. One that has ended meanwhile counts as nothing."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

_PATH = re.compile(r"\[http\.access\].* path=(\S+)")


def resident_bytes(process: int) -> int:
    """Memory that it has in use, shared pages included."""
    return int((_read(process, "statm").split() or ["0", "0"])[1]) * os.sysconf("SC_PAGE_SIZE")


def shared_bytes(process: int) -> int:
    """Its proportional share (PSS): a page that five processes share counts a fifth."""
    found = re.search(r"^Pss:\s+(\d+) kB$", _read(process, "smaps_rollup"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def processor_seconds(process: int) -> float:
    """Processor time that it has spent, its children's not included."""
    return sum(_times(process)[:2])


def family_seconds(process: int) -> float:
    """Processor time that it has spent, and that of its children, and theirs, that have ended and were waited for."""
    return sum(_times(process))


def requests_below(prefix: str, log: Path, position: int) -> dict[str, int]:
    """Requests in Airflow's access log from this byte on, by path."""
    with log.open("rb") as file:
        file.seek(position)
        paths = _PATH.findall(file.read().decode(errors="replace"))
    return dict(Counter(path for path in paths if path.startswith(prefix)))


def _times(process: int) -> list[float]:
    """Seconds in its own code and in the kernel, then the same of its children that have ended."""
    # The second field is a name in brackets, which may hold blanks.
    fields = _read(process, "stat").rpartition(")")[2].split()
    return [int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:15]]


def _read(process: int, name: str) -> str:
    try:
        return Path("/proc", str(process), name).read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
