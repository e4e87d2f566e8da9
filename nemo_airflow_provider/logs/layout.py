"""Where the files of a log stream are, what their records look like, and the marks beside them."""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from nemo_airflow_provider.errors import NemoJobsError
from nemo_airflow_provider.logs import commit

#: Lines per index record: block `i` holds the lines `256 * i` to `256 * i + 255`.
BLOCK_LINES = 256

#: `index`: (segment, byte offset) of each block. `task-<n>`: (block, lines of the task before that block).
RECORD = struct.Struct("<QQ")

#: A segment file is closed at the first block boundary at or after this size.
SEGMENT_BYTES = 32 * 1024 * 1024

_REMOVE_TRIES = 10


class StreamBusy(NemoJobsError):
    """Another pump holds the stream; wait for it."""

    code = "stream_busy"


class StreamRemoved(NemoJobsError):
    """The stream's files were removed while it was written: its job was deleted."""

    code = "stream_removed"


class StreamDamaged(NemoJobsError):
    """The commit records are torn, or files are shorter than they say (the machine they are on lost power)."""

    code = "stream_damaged"


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """Names the log of one generation of one step. Made of ids only, never of a name a workload chose.

    :param workspace: workspace name
    :param run_key: see `model.names.run_key`
    :param step_index: place of the step in the job, from 0
    :param generation: grows when the step is cleared after it ran
    """

    workspace: str
    run_key: str
    step_index: int
    generation: int

    def __post_init__(self) -> None:
        for part in (self.workspace, self.run_key):
            _check_part(part)

    def path(self, root: Path) -> Path:
        """The stream's directory."""
        return run_path(root, self.workspace, self.run_key) / f"{self.step_index}-{self.generation}"


def run_path(root: Path, workspace: str, run_key: str) -> Path:
    """The directory of all streams of a run.

    :raises ValueError: a part that would lead elsewhere
    """
    return root / "logs" / _check_part(workspace) / _check_part(run_key)


def _check_part(part: str) -> str:
    if not part or part in (".", "..") or "/" in part or "\0" in part:
        raise ValueError(f"{part!r} cannot be part of a log stream's path")
    return part


def segment_path(directory: str, number: int) -> str:
    """`seg-<n>.jsonl`: the lines."""
    return f"{directory}/seg-{number}.jsonl"


def index_path(directory: str) -> str:
    """One record per block."""
    return f"{directory}/index"


def task_path(directory: str, number: int) -> str:
    """One record per block that holds a line of the task."""
    return f"{directory}/task-{number}"


def make_directory(path: Path, root: Path) -> None:
    """Create `path` and what is missing between it and `root`, each for the owner only."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    current = root
    for part in path.relative_to(root).parts:
        current = current / part
        current.mkdir(mode=0o700, exist_ok=True)


# --- marks and questions ----------------------------------------------------------------------------


def mark_superseded(root: Path, stream: StreamId, start: int) -> None:
    """Say that this start was stopped to be run again: a try that finds the mark begins the next start."""
    directory = stream.path(root)
    make_directory(directory, root)
    descriptor = os.open(directory / "superseded.new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(str(start))
    os.replace(directory / "superseded.new", directory / "superseded")


def superseded_start(root: Path, stream: StreamId) -> int | None:
    """The start that `mark_superseded` was last called for; None when it never was."""
    try:
        return int((stream.path(root) / "superseded").read_text())
    except (FileNotFoundError, ValueError):
        return None


def line_count(root: Path, stream: StreamId) -> int:
    """Lines that can be read now; 0 when there is no such stream."""
    record = commit.load(str(stream.path(root)))
    return record.next_seq if record else 0


def remove_run(root: Path, workspace: str, run_key: str) -> None:
    """Delete every stream of a run. Twice is harmless; open readers keep what they have open.

    :raises OSError: a file cannot be deleted
    """
    directory = run_path(root, workspace, run_key)
    for attempt in range(_REMOVE_TRIES):
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            if not directory.exists():
                return
        except OSError:
            # A pump that has not noticed yet may have added a file to a directory being emptied.
            if attempt == _REMOVE_TRIES - 1:
                raise


def stored_runs(root: Path) -> set[tuple[str, str]]:
    """(workspace, run key) of every run of which there are streams."""
    return {
        (workspace.name, run.name)
        for workspace in _directories(root / "logs")
        for run in _directories(Path(workspace.path))
    }


def _directories(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
