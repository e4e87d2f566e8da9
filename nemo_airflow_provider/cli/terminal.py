"""What may reach a terminal, and how: control characters, colour, and a reader that has gone away."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TextIO

_ESCAPE_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS and the like: titles, clipboard
    r"|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
# Besides controls: the characters that make text read in another order than it is written.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_BREAKS = re.compile(r"[\r\n\u2028\u2029]+")

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "dim": 2}


def clean(text: str) -> str:
    """`text` that cannot steer a terminal; tabs and line ends stay."""
    return _CONTROLS.sub("\ufffd", _ESCAPE_SEQUENCES.sub("", text.replace("\r\n", "\n")))


def clean_line(text: str) -> str:
    """As `clean`, and on one line: a message must not pass for the next one."""
    return _LINE_BREAKS.sub(" ", clean(text))


def escape(text: str) -> str:
    """`text` of a format with JSON's escapes: what is left of control characters, as `\\uXXXX`."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class Terminal:
    """The two streams of this process, found anew at each use so that a redirection counts.

    :param colour: False switches colour off even on a terminal
    """

    def __init__(self, *, colour: bool = True) -> None:
        self.colour = colour

    def say(self, text: str, *, colour: str | None = None) -> None:
        """A line of data on stdout, as it is when nobody looks, harmless when somebody does."""
        self._write(sys.stdout, text, colour)

    def note(self, text: str, *, colour: str | None = None) -> None:
        """A line for people on stderr."""
        self._write(sys.stderr, text, colour)

    def paint(self, text: str, colour: str, stream: TextIO) -> str:
        """`text` in a colour, where the stream shows colours."""
        if not self.shows_colour(stream):
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"

    def shows_colour(self, stream: TextIO) -> bool:
        """Whether to colour what goes to `stream` (https://no-color.org)."""
        return self.colour and is_terminal(stream) and not os.environ.get("NO_COLOR")

    def _write(self, stream: TextIO, text: str, colour: str | None) -> None:
        shown = clean(text) if is_terminal(stream) else text
        if colour is not None:
            shown = self.paint(shown, colour, stream)
        write(stream, shown + "\n")


def is_terminal(stream: TextIO) -> bool:
    """Whether a person reads `stream`."""
    return stream.isatty()


class ReaderGone(Exception):
    """Nobody reads our output any more. No OSError, because typer has its own idea of what that means."""


def write(stream: TextIO, text: str) -> None:
    """Write and flush, so that a reader that has gone is noticed here.

    Text that the stream's encoding cannot express (a lone surrogate, a C locale) is written with escapes.

    :raises ReaderGone: the other end of the pipe is closed
    """
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error


def buffer_output() -> None:
    """Give stdout a buffer where PYTHONUNBUFFERED took it away.

    Without one, what a short write leaves over is dropped without a word; `write` flushes anyway.
    """
    stream = sys.stdout
    raw = getattr(stream, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors, newline="\n"
        )


def forget_output() -> None:
    """Keep the interpreter from complaining about a closed stdout or stderr when it ends."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(devnull, stream.fileno())
    os.close(devnull)
