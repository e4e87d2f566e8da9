"""Hiding secret values in what is stored: log lines, and what workloads and engines say of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

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
        # A log's lines end at `\n` alone, text elsewhere at whatever else ends a line.
        parts = {part.strip() for value in values for part in (value, *value.split("\n"), *value.splitlines())}
        #: All texts that are hidden: the values and their lines, without white space around them.
        self.parts = tuple(sorted(part for part in parts if len(part) >= SHORTEST_SECRET))

    def lines(self, lines: list[Line]) -> list[Line]:
        """The same lines without the values."""
        if not self.parts:
            return lines
        return [(micros, task, stream, self.text(message)) for micros, task, stream, message in lines]

    def value(self, value: Any) -> Any:
        """The same JSON value without the values, in keys too."""
        if not self.parts:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The same fields of a record without the values.

        The names of the fields are ours: one that a secret equals would be lost, and would tell the secret.
        """
        return {name: self.value(value) for name, value in values.items()}

    def text(self, message: str) -> str:
        """The same text without the values."""
        spans = [span for part in self.parts if part in message for span in _spans(part, message)]
        if self.parts and message.endswith(" bytes]") and (cut := _CUT.search(message)):
            spans += self._begun(message, cut.start())
        return _without(sorted(spans), message) if spans else message

    def _begun(self, message: str, end: int) -> Iterator[tuple[int, int]]:
        """The beginnings of values that the cut of a long line went through."""
        for part in self.parts:
            first = message.find(part[:SHORTEST_SECRET], max(0, end - len(part) + 1), end)
            while first >= 0:
                if part.startswith(message[first:end]):
                    yield first, end
                    break
                first = message.find(part[:SHORTEST_SECRET], first + 1, end)


def _spans(part: str, message: str) -> Iterator[tuple[int, int]]:
    """Where the part stands, also where it overlaps itself."""
    first = message.find(part)
    while first >= 0:
        yield first, first + len(part)
        first = message.find(part, first + 1)


def _without(spans: list[tuple[int, int]], message: str) -> str:
    """The message with one mask for each run of spans that touch: of two that overlap nothing may stay."""
    kept, done = [], 0
    masked_to = -1
    for first, end in spans:
        if first > masked_to:
            kept += [message[done:first], MASK]
        masked_to = done = max(masked_to, end)
    return "".join([*kept, message[done:]])
