"""The pump: a thread that moves a workload's output into the log store, each line once, to the last byte."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nemo_airflow_provider.errors import BackendError, OutputLost
from nemo_airflow_provider.logs.assembler import Assembler, Chunk
from nemo_airflow_provider.logs.batch import Batch
from nemo_airflow_provider.logs.layout import SEGMENT_BYTES, StreamBusy, StreamId
from nemo_airflow_provider.logs.mask import Mask
from nemo_airflow_provider.logs.store import Line, StreamWriter

log = logging.getLogger(__name__)

#: (position or None, stop event) to chunks, None while idle; contract of `backends.base.Backend.read_logs`.
Source = Callable[[Any, threading.Event], Iterator[Chunk | None]]

COMMIT_SECONDS = 0.2
COMMIT_BYTES = 1024 * 1024
LOCK_SECONDS = 0.2
FIRST_RETRY_SECONDS = 0.2
LAST_RETRY_SECONDS = 5.0


class _Stopped(Exception):
    """`stop` was called while the pump could not go on."""


class Pump:
    """Pumps one start of a step generation into its stream.

    A source or a disk that fails is tried again until it works; `trouble` says so meanwhile. Only what cannot
    get better ends the pump with `error`. Whatever ends it, a later pump goes on where the last commit was.

    :param source: called again, with the newest position, after it failed
    :param root: directory of the store
    :param stream: the stream to write
    :param start: start number; a stored position of another start is not used
    :param stderr_prefix: put before each line of stderr
    :param segment_bytes: see `layout.SEGMENT_BYTES`
    """

    def __init__(
        self,
        source: Source,
        root: Path,
        stream: StreamId,
        start: int,
        *,
        stderr_prefix: str = "",
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._source = source
        self._root = root
        self._stream = stream
        self._start_number = start
        self._mask = Mask()
        self._stderr_prefix = stderr_prefix
        self._segment_bytes = segment_bytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nemo-log-pump", daemon=True)
        self._committed_at = 0.0
        #: another process holds the stream
        self.waiting = False
        #: all output of this start is stored
        self.finished = False
        #: why the pump ended before that, if not by `stop`
        self.error: Exception | None = None
        #: what keeps the pump from going on now
        self.trouble: str | None = None

    def start(self, mask: Mask | None = None) -> None:
        """Start the thread.

        :param mask: hides what must never reach the store
        """
        self._mask = mask or self._mask
        self._thread.start()

    def stop(self) -> None:
        """Ask the pump to commit what it has and end."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end.

        :return: whether the pump has ended
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._open() as writer:
                self._pump(writer)
        except _Stopped:
            pass  # what is not stored is read again by the next pump
        except OutputLost as error:
            log.warning("%s", error)
            self.error = error
        except Exception as error:
            log.exception("The log of %s cannot be stored any further", self._stream)
            self.error = error

    def _open(self) -> StreamWriter:
        retry = _Retry(self)
        while True:
            try:
                writer = StreamWriter.open(self._root, self._stream, segment_bytes=self._segment_bytes)
            except StreamBusy:
                retry.reset()
                self.waiting = True
                if self._stop.wait(LOCK_SECONDS):
                    raise _Stopped from None
            except OSError as error:
                retry.after(f"The log store cannot be opened: {error}")
            else:
                retry.reset()
                self.waiting = False
                return writer

    def _pump(self, writer: StreamWriter) -> None:
        stored, state = writer.source, None
        if stored and stored["start"] == self._start_number:
            state = stored["assembler"]
            if writer.finished:
                self.finished = True
                return
        retry, batch = _Retry(self), Batch(writer, lambda lines: self._marked(self._mask.lines(lines)))
        while not self._stop.is_set():
            assembler = Assembler(state)
            try:
                self._read(writer, batch, assembler, retry)
            except _SourceFailed as failure:
                if batch.pending_bytes:
                    self._commit(writer, batch, assembler)
                # Open lines are forgotten and read again: the engine goes on at a chunk's start only.
                state = assembler.state()
                retry.after(f"The engine does not deliver the log: {failure.__cause__}")
            else:
                if self._stop.is_set():
                    break
                batch.add(assembler.flush())
                self._commit(writer, batch, assembler, finished=True)
                self.finished = True
                return

    def _read(self, writer: StreamWriter, batch: Batch, assembler: Assembler, retry: _Retry) -> None:
        """Read until the source ends; everything is committed then.

        :raises _SourceFailed: the engine failed
        """
        for chunk in _guarded(self._source, assembler.position, self._stop):
            retry.reset()
            if chunk is not None:
                for lines in assembler.feed(chunk):
                    batch.add(lines)
                    if batch.pending_bytes >= COMMIT_BYTES:
                        self._commit(writer, batch, assembler)
            due = chunk is None or time.monotonic() - self._committed_at >= COMMIT_SECONDS
            if due and batch.pending_bytes:
                self._commit(writer, batch, assembler)
            if self._stop.is_set():
                break
        if batch.pending_bytes:
            self._commit(writer, batch, assembler)

    def _marked(self, lines: list[Line]) -> list[Line]:
        if not self._stderr_prefix or all(line[2] == "stdout" for line in lines):
            return lines
        return [
            (micros, task, stream, self._stderr_prefix + message if stream == "stderr" else message)
            for micros, task, stream, message in lines
        ]

    def _commit(self, writer: StreamWriter, batch: Batch, assembler: Assembler, *, finished: bool = False) -> None:
        batch.flush()
        source = {"start": self._start_number, "assembler": assembler.state()}
        retry = _Retry(self)
        while True:
            try:
                writer.commit(source, finished=finished)
            except OSError as error:
                retry.after(f"The log cannot be stored: {error}")
            else:
                retry.reset()
                self._committed_at = time.monotonic()
                return


class _SourceFailed(Exception):
    """The source raised what another call may not."""


def _guarded(source: Source, position: Any, stop: threading.Event) -> Iterator[Chunk | None]:
    """The source's chunks; its errors are told apart from the store's, and it is closed when left early."""
    try:
        chunks = source(position, stop)
        try:
            yield from chunks
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
    except (BackendError, OSError) as error:
        raise _SourceFailed from error


class _Retry:
    """Growing pauses between tries of the same thing; tells the pump's user what is wrong meanwhile."""

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._pause = FIRST_RETRY_SECONDS
        self.used = False

    def after(self, trouble: str) -> None:
        """Pause before the next try.

        :raises _Stopped: `stop` was called
        """
        if self._pump.trouble is None:
            log.warning("%s", trouble)
        self._pump.trouble = trouble
        self.used = True
        if self._pump._stop.wait(self._pause):
            raise _Stopped
        self._pause = min(self._pause * 2, LAST_RETRY_SECONDS)

    def reset(self) -> None:
        """It works again."""
        if self.used:
            self._pump.trouble = None
            self._pause = FIRST_RETRY_SECONDS
            self.used = False
