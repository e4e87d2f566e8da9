"""Writes an archive of the images that a cluster begins with to standard output: no Docker engine is needed.

`nemo-test/busybox:1` has a shell; `nemo-test/pause:1` is the process that holds a pod's namespaces.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from typing import Any

from tests.busybox import root_filesystem

IMAGES: dict[str, dict[str, Any]] = {
    "nemo-test/busybox:1": {},
    "nemo-test/pause:1": {"Entrypoint": ["/bin/sleep", "inf"]},
}
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(images: dict[str, dict[str, Any]]) -> bytes:
    """What `docker save` would write of images that have the shell's files.

    :param images: name -> what its configuration has beside PATH
    """
    layer = root_filesystem()
    files = {"layer.tar": layer}
    manifest = []
    for number, (name, config) in enumerate(images.items()):
        described = {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], **config},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        files[f"{number}.json"] = json.dumps(described).encode()
        manifest.append({"Config": f"{number}.json", "RepoTags": [name], "Layers": ["layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


if __name__ == "__main__":
    sys.stdout.buffer.write(archive(IMAGES))
