"""The Docker engine that tests may use, and an image for them: no registry is asked for one."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.archive import Entry, packed
from nemo_airflow_provider.hooks.docker import connect

#: Where Debian's and Alpine's packages of a busybox that needs no library put it.
_PLACES = ("/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static")
IMAGE = "nemo-test/busybox:1"
#: A volume that profiles of tests mount, and where.
GATES, GATES_PATH = "nemo-test-gates", "/gates"


def busybox() -> Path | None:
    """A busybox of this host that runs in an image without anything else."""
    places = [Path(os.environ.get("NEMO_TEST_BUSYBOX", "")), *map(Path, _PLACES)]
    return next((place for place in places if place.is_file() and _is_static(place)), None)


def _is_static(program: Path) -> bool:
    return b"/ld-linux" not in program.read_bytes() and b"/ld-musl" not in program.read_bytes()


@cache
def image() -> str:
    """The name of an image with a shell; the engine has it afterwards."""
    client = connect(None).client()
    if not client.images(IMAGE):
        make_image(client, IMAGE)
    return IMAGE


def make_image(client: Any, name: str, *changes: str) -> None:
    """Have an engine make an image with a shell.

    :param changes: lines of a Dockerfile, such as `USER 1000`
    """
    repository, _, tag = name.rpartition(":")
    client.import_image_from_data(root_filesystem(), repository=repository, tag=tag, changes=list(changes))


def running(job: str) -> list[str]:
    """Ids of the containers of jobs of this name that run."""
    client = connect(None).client()
    return [each["Id"] for each in client.containers(filters={"label": f"{labels.PREFIX}job_id={job}"})]


def open_gate(name: str) -> None:
    """Make a file in the volume `GATES`."""
    client = connect(None).client()
    mounts = [{"Type": "volume", "Source": GATES, "Target": GATES_PATH}]
    body = {"Image": IMAGE, "Cmd": ["never-started"], "HostConfig": {"Mounts": mounts}}
    container = client.create_container_from_config(body)["Id"]
    try:
        client.put_archive(container, "/", packed([Entry(f"{GATES_PATH}/{name}", 0o644, b"")]))
    finally:
        client.remove_container(container)


@cache
def root_filesystem() -> bytes:
    """A tar archive of all that a shell needs."""
    program = busybox()
    assert program is not None, "engines.require told"
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
