"""A real HTTP server with scripted answers: the wire as the contract records it, without the product behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Answer:
    """What the server says to one request."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    #: Close the connection without a word instead of answering.
    hang_up: bool = False

    def payload(self) -> bytes:
        if self.status == 204:
            return b""
        if isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body).encode()


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Script = Answer | Callable[[Seen], Answer]


def detail(status: int, text: Any, **headers: str) -> Answer:
    """An error as the contract shapes it."""
    return Answer({"detail": text}, status, {name.replace("_", "-"): value for name, value in headers.items()})


class FakeServer:
    """Answers each route from its script; the last entry of a script repeats."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        #: Set when no more is answered.
        self.over = threading.Event()
        self._scripts: dict[tuple[str, str], list[Script]] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are two writes, which would be 40 ms apart

            def _serve(self) -> None:
                server._serve(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def log_message(self, format: str, *args: Any) -> None:
                """Silence: the tests look at `seen`."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def on(self, method: str, path: str, *scripts: Script) -> FakeServer:
        """Script the answers to `method path`, in order."""
        self._scripts[method, path] = list(scripts)
        return self

    def requests(self) -> list[tuple[str, str]]:
        """(method, path) of everything that arrived."""
        return [(seen.method, seen.path) for seen in self.seen]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        headers = {key.lower(): value for key, value in handler.headers.items()}
        seen = Seen(handler.command, parts.path, parse_qs(parts.query), headers, body)
        self.seen.append(seen)
        answer = self._answer(seen)
        if answer.hang_up:
            handler.close_connection = True
            return
        payload = answer.payload()
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.status != 204:
            handler.send_header("content-type", answer.content_type)
        handler.send_header("content-length", str(len(payload)))
        handler.end_headers()
        handler.wfile.write(payload)

    def _answer(self, seen: Seen) -> Answer:
        scripts = self._scripts.get((seen.method, seen.path))
        if not scripts:
            return detail(404, "Not Found")
        script = scripts.pop(0) if len(scripts) > 1 else scripts[0]
        return script(seen) if callable(script) else script

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self._http.shutdown()
            self._http.server_close()
            thread.join(timeout=5)
