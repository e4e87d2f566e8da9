"""Exit codes of a container's process, in words: pure."""

from __future__ import annotations

import signal

#: Exit codes of a shell, or of the container's init process, for a command that a signal ended.
_SIGNALLED = 128
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


def head(code: int) -> str:
    """How every sentence about a failure begins."""
    return f"Job exited with non-zero code {code}"


def failure_of(code: int) -> tuple[str, dict[str, str] | None]:
    """What an exit code other than 0 says by itself: a sentence, and more for `error_details`."""
    if code == _NOT_FOUND:
        return f"{head(code)}: its command was not found in the image, check logs for details.", None
    if code == _NOT_EXECUTABLE:
        return f"{head(code)}: its command cannot be executed, check logs for details.", None
    if name := _signal_name(code - _SIGNALLED):
        return f"{head(code)}: it was ended by {name}, check logs for details.", {"signal": name}
    return f"{head(code)}, check logs for details.", None


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
