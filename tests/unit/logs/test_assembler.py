from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.logs.assembler import Assembler, Chunk
from nemo_airflow_provider.logs.store import Line

from .engine import BEGAN, TASK, Engine, Write, chunk


def _messages(chunks: Iterable[Chunk], limit: int = 65536) -> list[str]:
    assembler = Assembler(line_limit=limit)
    lines = [line for item in chunks for batch in assembler.feed(item) for line in batch]
    return [message for *_, message in lines + assembler.flush()]


def _whole(data: bytes, limit: int = 65536) -> list[str]:
    return _messages([chunk(data)], limit)


def _bytewise(data: bytes, limit: int = 65536) -> list[str]:
    return _messages((chunk(data[n : n + 1], n) for n in range(len(data))), limit)


CASES = [
    (b"", []),
    (b"a\nb\n", ["a", "b"]),
    (b"a\n\n\nb", ["a", "", "", "b"]),
    (b"\n", [""]),
    (b"windows\r\nline\r\n", ["windows", "line"]),
    (b"10%\r20%\r30%\ndone\n", ["30%", "done"]),
    (b"10%\r20%\r\n", ["20%"]),
    (b"10%\r\r\r", ["10%"]),
    (b"\r\r\n", [""]),
    (b"kept\r\x0b\n", ["\x0b"]),
    ("é漢😀\n".encode(), ["é漢😀"]),
    (b"bad \xff\xe2\x82\nnext\n", ["bad \ufffd\ufffd", "next"]),
    (b"form\x0cfeed\x1c\x85\n", ["form\x0cfeed\x1c\ufffd"]),
    ("line\u2028separator\u0085\n".encode(), ["line\u2028separator\u0085"]),
    (b"12345678\n", ["12345678"]),
    (b"123456789\n", ["12345678 … [cut: 9 bytes]"]),
    (b"123456789", ["12345678 … [cut: 9 bytes]"]),
    ("1234567é\n".encode(), ["1234567 … [cut: 9 bytes]"]),
    (b"123456789012\r\nx\n", ["12345678 … [cut: 12 bytes]", "x"]),
    (b"1234567890\rshort\n", ["short"]),
    (b"short\r1234567890\n", ["12345678 … [cut: 10 bytes]"]),
    (b"1234567890\r", ["12345678 … [cut: 10 bytes]"]),
]


@pytest.mark.parametrize(("data", "expected"), CASES)
def test_lines_do_not_depend_on_the_cut(data: bytes, expected: list[str]) -> None:
    limit = 8 if any("cut" in message for message in expected) or len(data) == 9 else 65536
    assert _whole(data, limit) == expected
    assert _bytewise(data, limit) == expected


def test_a_line_has_the_time_of_the_chunk_that_completed_it() -> None:
    assembler = Assembler()
    batches = [
        *assembler.feed(chunk(b"one\ntw", 0)),
        *assembler.feed(chunk(b"o\nthr", 100)),
        *assembler.feed(chunk(b"ee", 200)),
        assembler.flush(),
    ]
    lines = [line for batch in batches for line in batch]
    assert [(micros - BEGAN, message) for micros, _, _, message in lines] == [
        (0, "one"),
        (100, "two"),
        (200, "three"),
    ]


def test_tasks_and_streams_do_not_mix() -> None:
    writes = [
        Write("task-a", "stdout", b"a-out "),
        Write("task-a", "stderr", b"a-err "),
        Write("task-b", "stdout", b"b-out\n"),
        Write("task-a", "stdout", b"end\n"),
        Write("task-a", "stderr", b"end\n"),
    ]
    assert [line[1:] for line in _run(writes)] == [
        ("task-b", "stdout", "b-out"),
        ("task-a", "stdout", "a-out end"),
        ("task-a", "stderr", "a-err end"),
    ]


@pytest.mark.parametrize("part", [b"x" * 65536, b"\r" + b"x" * 65535, b"50%\r" * 16384])
def test_an_endless_line_holds_little_memory(part: bytes) -> None:
    assembler = Assembler()
    for number in range(128):
        assert list(assembler.feed(chunk(part, number * len(part)))) == []
    held = sum(len(text.head) for line in assembler._open.values() for text in (line.current, line.rewritten))
    assert held <= 4 * 65536
    assert len(json.dumps(assembler.state())) < 200
    ((_, _, _, message),) = assembler.flush()
    if part[:1] == b"x":
        assert message == "x" * 65536 + " … [cut: 8388608 bytes]"


def test_a_large_chunk_comes_in_bounded_lists() -> None:
    sizes = [len(lines) for lines in Assembler().feed(chunk(b"\n" * 1_000_000))]
    assert sum(sizes) == 1_000_000
    assert max(sizes) <= 65536


def test_the_position_is_the_start_of_the_earliest_open_line() -> None:
    assembler = Assembler()
    assert assembler.state() == {"position": None, "skip": []}
    list(assembler.feed(chunk(b"a\nb\n", 0)))
    assert assembler.state() == {"position": 4, "skip": []}
    list(assembler.feed(chunk(b"c\nopen", 4, stream="stderr")))
    assert assembler.state() == {"position": 4, "skip": [[TASK, "stderr", 2]]}
    list(assembler.feed(chunk(b"d\n", 10)))
    assert assembler.state() == {"position": 4, "skip": [[TASK, "stderr", 2], [TASK, "stdout", 2]]}
    list(assembler.feed(chunk(b"e\nfg", 12)))
    list(assembler.feed(chunk(b"ed\n", 16, stream="stderr")))
    assert assembler.state() == {"position": 12, "skip": [[TASK, "stdout", 2], [TASK, "stderr", 3]]}
    list(assembler.feed(chunk(b"\n", 19)))
    assert assembler.state() == {"position": 20, "skip": []}


# --- any cut, killed anywhere -----------------------------------------------------------------------


def _run(writes: list[Write]) -> list[Line]:
    assembler = Assembler(line_limit=16)
    chunks = Engine(writes).read(None, threading.Event())
    lines = [line for item in chunks if item for batch in assembler.feed(item) for line in batch]
    return lines + assembler.flush()


def _run_killed(writes: list[Write], choose: random.Random) -> list[Line]:
    """Commit now and then, die now and then, go on from the last commit with other cuts."""
    committed: list[Line] = []
    state = None
    for _ in range(1000):
        assembler = Assembler(json.loads(json.dumps(state)), line_limit=16)
        pending: list[Line] = []
        deadly = choose.random() < 0.9
        for item in Engine(writes, choose.randint(1, 40)).read(assembler.position, threading.Event()):
            assert item is not None
            for batch in assembler.feed(item):
                pending += batch
                if choose.random() < 0.3:
                    committed, pending, state = committed + pending, [], assembler.state()
            if choose.random() < 0.2:
                committed, pending, state = committed + pending, [], assembler.state()
            if deadly and choose.random() < 0.1:
                break
        else:
            return committed + pending + assembler.flush()
    raise AssertionError("never came to the end")


_DATA = st.lists(
    st.sampled_from([b"\n", b"a", b"bc", b"\r", b"\r\n", b"x" * 20, "é漢".encode(), b"\xe2"]), max_size=12
).map(b"".join)
_WRITES = st.lists(
    st.builds(Write, st.sampled_from(["task-a", "task-b"]), st.sampled_from(["stdout", "stderr"]), _DATA),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(_WRITES, st.integers())
def test_kills_and_other_cuts_change_nothing(writes: list[Write], seed: int) -> None:
    def by_stream(lines: list[Line]) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for _, task, stream, message in lines:
            found.setdefault((task, stream), []).append(message)
        return found

    assert by_stream(_run_killed(writes, random.Random(seed))) == by_stream(_run(writes))
