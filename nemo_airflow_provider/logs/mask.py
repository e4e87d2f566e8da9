"""Hiding secret values in log lines before they are stored."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nemo_airflow_provider.logs.store import Line

#: Shorter values are words that appear by chance; masking them would spoil the log and tell the value.
SHORTEST_SECRET = 5
MASK = "***"

_CUT = re.compile(r" … \[cut: [0-9]+ bytes\]$")


class Mask:
    """Replaces each secret value by `***`; a value of several lines is hidden line by line.

    :param values: the secret values
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        parts = {part.strip() for value in values for part in (value, *value.splitlines())}
        # Longest first, so that a value that contains another is hidden as a whole.
        self._parts = sorted((part for part in parts if len(part) >= SHORTEST_SECRET), key=len, reverse=True)

    def lines(self, lines: list[Line]) -> list[Line]:
        """The same lines without the values."""
        if not self._parts:
            return lines
        return [(micros, task, stream, self.text(message)) for micros, task, stream, message in lines]

    def text(self, message: str) -> str:
        """The same text without the values."""
        for part in self._parts:
            if part in message:
                message = message.replace(part, MASK)
        if self._parts and message.endswith(" bytes]") and (cut := _CUT.search(message)):
            message = self._without_begun(message[: cut.start()]) + cut[0]
        return message

    def _without_begun(self, text: str) -> str:
        """Without the beginning of a value that the cut of a long line went through."""
        for part in self._parts:
            for length in range(len(part) - 1, SHORTEST_SECRET - 1, -1):
                if text.endswith(part[:length]):
                    return text[:-length] + MASK
        return text
