"""The frames of an output file: when, which stream, and the bytes of one read.

Standard library only: the supervisor writes with these definitions.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nemo_airflow_provider.model.logline import Stream

#: Microseconds since 1970, stream number, length of the data; little endian, no padding.
HEADER = struct.Struct("<QBI")
#: Most data in one frame: what the supervisor reads at once.
MAX_DATA = 1 << 16
STREAM_NUMBERS: dict[Stream, int] = {"stdout": 1, "stderr": 2}
_STREAMS = {number: name for name, number in STREAM_NUMBERS.items()}


class Frame:
    """One frame.

    :param micros: when it was read from the workload, microseconds since 1970
    :param stream: `stdout` or `stderr`
    :param start: offset of its header in the file
    :param end: offset after its data
    """

    __slots__ = ("data", "end", "micros", "start", "stream")

    def __init__(self, micros: int, stream: Stream, data: bytes, start: int, end: int) -> None:
        self.micros = micros
        self.stream = stream
        self.data = data
        self.start = start
        self.end = end


def parse(block: bytes, offset: int, final: bool) -> list[Frame]:
    """The whole frames at the beginning of a block.

    The workload may write to its own output file. A header that no supervisor wrote is therefore no error: up to
    `MAX_DATA` bytes from there are taken as standard output, so that nothing is lost and reading goes on. A header of
    zeros begins a hole, of a file that was only made longer, or whose disk lost power: reading ends there, since it may
    be larger than any disk, whatever the supervisor appends behind it.

    :param block: bytes of the file from `offset`, at least one whole frame where the file has one
    :param offset: where the block begins in the file; a frame begins there
    :param final: nothing will follow: a frame cut short is delivered with the data that is there
    """
    found: list[Frame] = []
    at = 0
    micros = 0
    while len(block) - at >= HEADER.size:
        time, number, length = HEADER.unpack_from(block, at)
        if not (time or number or length):
            break
        begin = at + HEADER.size
        if number not in _STREAMS or length > MAX_DATA:
            begin, length, number = at, min(len(block) - at, MAX_DATA), 1
        else:
            micros = time
        end = begin + length
        if end > len(block):
            if not final:
                break
            end = len(block)
        found.append(Frame(micros, _STREAMS[number], block[begin:end], offset + at, offset + end))
        at = end
    return found
