"""A busybox of this host, and what an image with a shell is made of. Nothing beyond Python is needed."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from functools import cache
from pathlib import Path

#: Where Debian's and Alpine's packages of a busybox that needs no library put it.
_PLACES = ("/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static")


def busybox() -> Path | None:
    """A busybox of this host that runs in an image without anything else."""
    places = [Path(os.environ.get("NEMO_TEST_BUSYBOX", "")), *map(Path, _PLACES)]
    return next((place for place in places if place.is_file() and _is_static(place)), None)


def _is_static(program: Path) -> bool:
    return b"/ld-linux" not in program.read_bytes() and b"/ld-musl" not in program.read_bytes()


@cache
def root_filesystem() -> bytes:
    """A tar archive of all that a shell needs."""
    program = busybox()
    assert program is not None, "the caller has looked"
    applets = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("root", 0o700)):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            archive.addfile(folder)
        archive.add(program, "bin/busybox")
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
        for name, text in (("passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("group", "root:x:0:\n")):
            file = tarfile.TarInfo(f"etc/{name}")
            file.size = len(text)
            archive.addfile(file, io.BytesIO(text.encode()))
    return buffer.getvalue()
