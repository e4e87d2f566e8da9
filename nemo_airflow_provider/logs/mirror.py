"""The mirror: the first and the last lines of a stream, copied live from the store to another log."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nemo_airflow_provider.logs.layout import StreamId, line_count
from nemo_airflow_provider.logs.stored import read_from
from nemo_airflow_provider.model.logline import LogLine

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
_BATCH_LINES = 200


@dataclass(frozen=True, slots=True)
class MirrorSummary:
    """What a mirror did, earlier tries of the same generation counted.

    :param lines: lines in the stream
    :param not_mirrored: lines that only the store has
    """

    lines: int
    not_mirrored: int


class Mirror:
    """Copies the first `lines` lines while they come, and the last `lines` lines at the end.

    Its position is kept beside the stream, so that the next try of a step goes on where this one stopped. It
    only reads the store, and never slows it.

    :param root: directory of the store
    :param stream: what to copy
    :param emit: called with each line from a thread of the mirror
    :param lines: how many first and how many last lines
    :param clock: seconds, monotonic
    """

    def __init__(
        self,
        root: Path,
        stream: StreamId,
        emit: Callable[[LogLine], None],
        *,
        lines: int = 5000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._stream = stream
        self._emit = emit
        self._lines = lines
        self._clock = clock
        self._path = stream.path(root) / "mirror"
        self._next_seq, self._emitted = self._load()
        self._end = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._run, name="nemo-log-mirror", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self, timeout_seconds: float = 1.0) -> MirrorSummary:
        """Copy the last lines that are stored now, for at most `timeout_seconds`, and end."""
        self._deadline = self._clock() + timeout_seconds
        self._end.set()
        self._thread.join(timeout_seconds)
        # A thread that hangs in `emit` stays behind; it emits nothing more, as the deadline is over.
        total = line_count(self._root, self._stream)
        return MirrorSummary(total, max(total - self._emitted, 0))

    def _run(self) -> None:
        try:
            while self._next_seq < self._lines and not self._end.is_set():
                if not self._copy(self._lines):
                    self._end.wait(POLL_SECONDS)
            self._end.wait()
            self._copy_end(line_count(self._root, self._stream))
        except Exception:
            # The store has every line; a log that takes none must not end the step.
            log.exception("Lines of %s are not copied to this log any further", self._stream)

    def _copy_end(self, total: int) -> None:
        began, emitted_before = self._clock(), self._emitted
        last_lines = total - self._lines
        while self._clock() < self._deadline:
            if self._next_seq >= self._lines:
                self._next_seq = max(self._next_seq, last_lines)
            if not self._copy(total if self._next_seq >= last_lines else self._lines):
                return
            used, left = self._clock() - began, self._deadline - self._clock()
            if used > 0:
                # The very last lines matter most: what there will be no time for is left out before them.
                affordable = int((self._emitted - emitted_before) / used * left)
                if affordable < self._left(total):
                    self._next_seq = max(self._next_seq, total - max(affordable, _BATCH_LINES))

    def _left(self, total: int) -> int:
        """Lines still to copy when the stream ends at `total`."""
        first = max(min(self._lines, total) - self._next_seq, 0)
        return first + max(total - max(self._next_seq, total - self._lines, self._lines), 0)

    def _copy(self, end: int) -> bool:
        """Emit the next batch of the lines before `end`; whether there was one."""
        batch = read_from(self._root, self._stream, self._next_seq, min(_BATCH_LINES, end - self._next_seq))
        for line in batch:
            if self._clock() >= self._deadline:
                break
            self._emit(line)
            self._next_seq = line.seq + 1
            self._emitted += 1
        if batch:
            self._save()
        return bool(batch)

    def _load(self) -> tuple[int, int]:
        try:
            position = json.loads(self._path.read_text())
            return int(position["next_seq"]), int(position["emitted"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0, 0  # no try before this one, or one that was killed while it wrote

    def _save(self) -> None:
        text = json.dumps({"next_seq": self._next_seq, "emitted": self._emitted})
        descriptor = os.open(f"{self._path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(f"{self._path}.new", self._path)
