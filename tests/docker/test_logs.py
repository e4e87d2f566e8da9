"""Output of a container, much of it, and of odd shapes."""

from __future__ import annotations

import random
from threading import Event

from tests.contract.test_backend import chunks, end
from tests.docker.dock import Dock


def test_a_hundred_thousand_lines_of_two_streams_are_read_on_from_anywhere(dock: Dock) -> None:
    backend = dock.backend()
    script = "seq 50000 & (seq 50001 100000) >&2 & wait"
    backend.submit(dock.workload(script))
    end(dock, backend)
    whole = chunks(backend, dock.key())
    for stream, first in (("stdout", 1), ("stderr", 50_001)):
        lines = b"".join(chunk.data for chunk in whole if chunk.stream == stream).splitlines()
        assert list(map(int, lines)) == list(range(first, first + 50_000))
    # A reader that is killed has stored the position of any chunk.
    for place in [0, len(whole) - 1, *random.Random(1).sample(range(len(whole)), 1)]:
        reader = dock.backend().read_logs(dock.key(), whole[place].end, Event())
        follow = next((chunk for chunk in reader if chunk), None)
        assert follow == (whole[place + 1] if place + 1 < len(whole) else None)
    place = len(whole) // 2
    assert chunks(dock.backend(), dock.key(), whole[place].end) == whole[place + 1 :]


def test_a_long_line_without_an_end_and_any_bytes_arrive_whole(dock: Dock) -> None:
    backend = dock.backend()
    script = r"head -c 1048576 /dev/zero | tr '\0' x; printf '\000\377\376\r\n\200 last'"
    backend.submit(dock.workload(script))
    end(dock, backend)
    found = chunks(backend, dock.key())
    # The engine itself keeps text: each byte that is none becomes a replacement character, as it would in our store.
    written = b"x" * 1048576 + b"\0\xff\xfe\r\n\x80 last"
    assert b"".join(chunk.data for chunk in found).decode() == written.decode(errors="replace")
    for place in (3, len(found) // 2):
        assert chunks(dock.backend(), dock.key(), found[place].end) == found[place + 1 :]
