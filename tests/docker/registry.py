"""A registry on this host that serves one image, as well or as badly as a test likes.

It speaks plain HTTP, which Docker takes from a loopback address, and what of the distribution API a pull needs.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex

from tests.busybox import busybox

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
_LOOK_SECONDS = 0.05
_PIECE = 100_000


@dataclass
class Registry:
    """What it serves, and how.

    :param port: on 127.0.0.1
    """

    port: int
    #: HTTP status of every answer; None: as it should be.
    status: int | None = None
    #: The only user and password it knows; None: everybody may.
    login: tuple[str, str] | None = None
    #: Three quarters of the layer go out, the last of them slowly; the rest only when this is set.
    gate: threading.Event = field(default_factory=threading.Event)
    #: Set when nothing more goes out until then.
    is_still: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()
        self.host = f"127.0.0.1:{self.port}"
        self.image = f"{self.host}/nemo/test-{token_hex(4)}:1"
        self.layer = _layer()
        config = {"architecture": _architecture(), "os": "linux", "config": {"Cmd": ["/bin/sh"]}}
        config["rootfs"] = {"type": "layers", "diff_ids": [_digest(self.layer)]}
        self.config = json.dumps(config).encode()
        entries = [(_CONFIG, self.config), (_LAYER, self.layer)]
        described = [{"mediaType": kind, "size": len(data), "digest": _digest(data)} for kind, data in entries]
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": described[0], "layers": described[1:]}
        self.manifest = json.dumps(manifest).encode()

    def answer(self, path: str, authorization: str | None) -> tuple[int, str, bytes]:
        """Status, content type and body for a path."""
        if self.status is not None:
            return self.status, "text/plain", b"out of order"
        if self.login is not None and authorization != _basic(*self.login):
            return 401, "application/json", _error("UNAUTHORIZED", "authentication required")
        if path == "/v2/":
            return 200, "application/json", b"{}"
        name, _, tag = self.image.removeprefix(self.host).rpartition(":")
        known = {
            f"/v2{name}/manifests/{tag}": (_MANIFEST, self.manifest),
            f"/v2{name}/manifests/{_digest(self.manifest)}": (_MANIFEST, self.manifest),
            **{f"/v2{name}/blobs/{_digest(data)}": (_CONFIG, data) for data in (self.config, self.layer)},
        }
        if path in known:
            return 200, *known[path]
        return 404, "application/json", _error("MANIFEST_UNKNOWN", "manifest unknown")


@contextmanager
def registry() -> Iterator[Registry]:
    """A registry, and in it an image with a shell that no engine has."""

    class Server(ThreadingHTTPServer):
        served: Registry

        def handle_error(self, *_: object) -> None:
            """Engines try TLS first, and hang up."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made = server.served
            status, kind, body = made.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            if kind == _MANIFEST:
                self.send_header("Docker-Content-Digest", _digest(body))
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.end_headers()
            if self.command == "HEAD":
                return
            sent = len(body) // 2 if body is made.layer else len(body)
            self.wfile.write(body[:sent])
            # Engines tell how far they are when something arrives.
            while sent < len(body) * 3 // 4 and not made.gate.wait(_LOOK_SECONDS):
                self.wfile.write(body[sent : sent + _PIECE])
                sent += _PIECE
            if not made.gate.is_set():
                made.is_still.set()
                made.gate.wait()
            self.wfile.write(body[sent:])

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None: ...

    with Server(("127.0.0.1", 0), Handler) as server:
        server.served = Registry(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.served
        server.served.gate.set()
        server.shutdown()


def _layer() -> bytes:
    """A shell, and bytes that make it another layer each time."""
    program = busybox()
    assert program is not None, "engines.require told"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(program, "bin/busybox")
        link = tarfile.TarInfo("bin/sh")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        archive.addfile(link)
        padding = tarfile.TarInfo("padding")
        padding.size = 6_000_000
        archive.addfile(padding, io.BytesIO(os.urandom(padding.size)))
    return buffer.getvalue()


def _architecture() -> str:
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _error(code: str, message: str) -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()
