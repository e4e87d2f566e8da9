"""The longest request body that is taken: a job's body becomes its run's conf, and every task is sent all of it."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 8 * 2**20

_TEXT = (
    f"The request body is longer than {MAX_BODY_BYTES // 2**20} MiB, the most that is taken. Give large inputs by "
    "reference, for example as a path or a URL in the step's config."
)


class BodyLimit:
    """Refuses a longer body with 413: by its declared length before any of it is read, else as soon as it shows.

    The refusal is raised where the app reads the body, so the app's own error handler answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        read = 0

        async def limited() -> Message:
            nonlocal read
            if _is_longer(declared):
                raise HTTPException(413, _TEXT)
            message = await receive()
            read += len(message.get("body", b""))
            if read > MAX_BODY_BYTES:
                raise HTTPException(413, _TEXT)
            return message

        await self._app(scope, limited, send)


def _is_longer(declared: str) -> bool:
    """Whether a `Content-Length` is too long; one that is no number is for the server to refuse."""
    if not (declared.isascii() and declared.isdigit()):
        return False
    return len(declared) > 18 or int(declared) > MAX_BODY_BYTES
