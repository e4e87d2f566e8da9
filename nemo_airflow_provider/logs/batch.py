"""Lines on their way into a stream, several at once: engines hand them out one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nemo_airflow_provider.logs.store import Line, StreamWriter

#: Of text that is held back, at most about so much.
BYTES = 1 << 16
#: What a line takes beside its text.
_LINE_BYTES = 64


class Batch:
    """Holds lines back until there are enough of them, or until `flush`.

    :param prepare: what is done to lines before they are appended
    """

    def __init__(self, writer: StreamWriter, prepare: Callable[[list[Line]], list[Line]]) -> None:
        self._writer = writer
        self._prepare = prepare
        self._lines: list[Line] = []
        self._bytes = 0

    def add(self, lines: Sequence[Line]) -> None:
        """Some more, in their order."""
        self._lines += lines
        self._bytes += sum(len(message) + _LINE_BYTES for _, _, _, message in lines)
        if self._bytes >= BYTES:
            self.flush()

    def flush(self) -> None:
        """Append all that are held back."""
        if self._lines:
            self._writer.append(self._prepare(self._lines))
            self._lines, self._bytes = [], 0

    @property
    def pending_bytes(self) -> int:
        """About as many as a commit would write."""
        return self._writer.pending_bytes + self._bytes
