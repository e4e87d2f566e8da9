from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.backends.docker.archive import Entry, beginning, packed
from nemo_airflow_provider.errors import BackendError


def archive(*members: tuple[str, bytes, bytes]) -> bytes:
    """Name, type and content (of a link: its target) of each member."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(content)
            else:
                info.linkname = content.decode()
            made.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[begin : begin + size] for begin in range(0, len(data), size))


@pytest.mark.parametrize("data", [b"", b"{}", "grün\n".encode(), bytes(range(256)) * 1000])
@pytest.mark.parametrize(
    "path", ["/var/run/scratch/config/job_step_config.json", f"/{'long' * 60}/{'name' * 60}", "/ü"]
)
def test_a_file_is_packed(path: str, data: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed([Entry(path, 0o640, data)]))) as made:
        [member] = made.getmembers()
        file = made.extractfile(member)
        assert file is not None
        assert file.read() == data
    assert (f"/{member.name}", member.mode, member.isreg(), member.uid) == (path, 0o640, True, 0)


def test_directories_are_packed_in_order() -> None:
    with tarfile.open(fileobj=io.BytesIO(packed([Entry("/a", 0o755), Entry("/a/b", 0o777)]))) as made:
        found = [(member.name, member.mode, member.isdir()) for member in made]
    assert found == [("a", 0o755, True), ("a/b", 0o777, True)]


@settings(max_examples=50)
@given(st.binary(max_size=3000), st.integers(0, 4000), st.integers(1, 5000))
def test_the_beginning_of_a_file(data: bytes, most_bytes: int, size: int) -> None:
    content = packed([Entry("/results.json", 0o644, data)])
    assert beginning(pieces(content, size), most_bytes) == data[:most_bytes]


def test_of_a_large_file_no_more_is_taken_than_is_read() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        info = tarfile.TarInfo("results.json")
        info.size = 1 << 40
        yield info.tobuf()
        while True:
            taken += 1 << 16
            yield bytes(1 << 16)

    assert beginning(endless(), 100_000) == bytes(100_000)
    assert taken < 1 << 20


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (tarfile.SYMTYPE, b"/etc/passwd"),
        (tarfile.LNKTYPE, b"other"),
        (tarfile.DIRTYPE, b""),
        (tarfile.FIFOTYPE, b""),
        (tarfile.CHRTYPE, b""),
    ],
)
def test_what_is_no_file(kind: bytes, content: bytes) -> None:
    found = archive(("results.json", kind, content), ("results.json/below", tarfile.REGTYPE, b"secret"))
    assert beginning(iter([found]), 100) is None


def test_an_archive_without_members() -> None:
    assert beginning(iter([archive()]), 100) is None


@pytest.mark.parametrize("length", [0, 1, 511, 513, 700, 1023])
def test_an_archive_that_is_cut_off(length: int) -> None:
    whole = packed([Entry("/results.json", 0o644, b"x" * 600)])
    with pytest.raises(BackendError, match="did not hand out all of a file"):
        beginning(iter([whole[:length]]), 600)


def test_an_archive_that_is_none() -> None:
    with pytest.raises(BackendError, match="did not hand out all of a file"):
        beginning(iter([b"<html>" * 1000]), 100)
