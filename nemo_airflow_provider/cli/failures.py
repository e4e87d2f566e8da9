"""Every error as lines on stderr and an exit code; nothing else in the command line prints an error."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from nemo_airflow_provider.cli.session import ExpiredToken, Session
from nemo_airflow_provider.cli.terminal import Terminal
from nemo_airflow_provider.client.address import without_credentials
from nemo_airflow_provider.client.auth import LOGIN_PATH
from nemo_airflow_provider.client.errors import (
    ApiError,
    BadAnswer,
    CleartextToken,
    ClientError,
    ConnectionFailed,
    TimedOut,
)
from nemo_airflow_provider.errors import NemoJobsError

_PREFIXES = {
    400: "Bad request",
    401: "Authentication error",
    403: "Permission denied",
    404: "Not found",
    409: "Conflict",
    422: "Invalid input",
    429: "Rate limit exceeded",
}
_HINTS = {
    400: "Correct the options named above; --help lists what they take.",
    403: "Your user may not do this in this workspace. Ask an administrator of the server for the permission.",
    404: (
        "Check the resource name/ID with nemo jobs list. A 404 can mean the resource does not exist, the "
        "workspace/base URL is wrong, or the endpoint is not deployed on this cluster. Verify "
        "base-url/workspace with nemo config view."
    ),
    409: (
        "A resource with that name may exist (choose another name or delete it), or a concurrent update "
        "conflicted (try again)."
    ),
    422: "Correct the value named above; --help lists the options.",
    429: "The server wants fewer requests. Wait a moment and try again.",
}
_SERVER_HINT = "The server failed, not your request. Its log says more; try again later."
_CONFIGURATION_HINT = (
    "The server's configuration is wrong, not your request. Its administrator has to correct this file."
)
# How a ConfigError begins: about the file as a whole, or with a place in it.
_CONFIGURATION_ERROR = re.compile(
    r"Configuration file '|NeMo Helix configuration file |Error parsing NeMo Helix configuration file |/[^\n]*?:\d+: "
)
_MOST_PROBLEMS = 20
# Values are quoted in errors, and may be of any length.
_LONGEST_LINE = 1500
_PLAIN_HINT = "Run with --verbose for more details."
# These are about what was asked, not about where: the address would only hide the sentence that helps.
_WITHOUT_ADDRESS = frozenset({400, 401, 403, 409, 422, 429})


class InvalidBody(NemoJobsError):
    """The job was refused before it was sent.

    :param problems: (field, message) of each thing that is wrong
    """

    exit_code = 2

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("Invalid input:")
        self.problems = problems


class MissingOptions(NemoJobsError):
    """Required fields of a body were given neither as options nor in the input."""

    exit_code = 2

    def __init__(self, lines: list[str]) -> None:
        super().__init__("Error: Missing required options:")
        self.lines = lines


class UsageError(NemoJobsError):
    """The command cannot mean what was typed."""

    exit_code = 2


def report(error: Exception, session: Session) -> int:
    """Say on stderr what went wrong and what to do; the exit code."""
    lines = [_shortened(line) for line in _lines(error, session)]
    terminal = _terminal(session)
    terminal.note(lines[0], colour="red")
    for line in lines[1:]:
        terminal.note(line)
    if session.options.verbose and not isinstance(error, NemoJobsError):
        import traceback

        terminal.note("".join(traceback.format_exception(error)).rstrip())
    return error.exit_code if isinstance(error, NemoJobsError) else 1


def _shortened(line: str) -> str:
    half = _LONGEST_LINE // 2
    return line if len(line) <= _LONGEST_LINE else f"{line[:half]} … {line[-half:]}"


def _lines(error: Exception, session: Session) -> list[str]:
    if isinstance(error, ClientError):
        return _client_lines(error, session)
    if isinstance(error, InvalidBody):
        told = [f"  {field}  {message}" for field, message in error.problems[:_MOST_PROBLEMS]]
        more = len(error.problems) - len(told)
        return [str(error), *told, *([f"  … and {more} more"] if more else [])]
    if isinstance(error, MissingOptions):
        hint = "Hint: Provide via CLI flags or --input-file/--input-data."
        return [str(error), *(f"  {line}" for line in error.lines), hint]
    if isinstance(error, NemoJobsError):
        hints = [f"Hint: {login_hint(session)}"] if isinstance(error, ExpiredToken) else []
        return [f"Error: {error}", *hints]
    return [f"Unexpected error: {error or type(error).__name__}", f"Hint: {_PLAIN_HINT}"]


def _client_lines(error: ClientError, session: Session) -> list[str]:
    server = f"{session.display_url} (from {session.base_url.source})"
    if isinstance(error, ApiError):
        return _api_lines(error, session)
    if isinstance(error, TimedOut) and error.sent:
        return [f"Timeout error: {error}", *_address(error), f"Hint: {_slow_hint(error, server)}"]
    if isinstance(error, ConnectionFailed):
        prefix = "Timeout error" if isinstance(error, TimedOut) else "Connection error"
        hint = _https_hint(error, session, server) or (
            f"The base URL in use is {server}. Start the server there, or name another with --base-url, "
            f"NHX_BASE_URL or the context file {session.file}."
        )
        return [f"{prefix}: {error}", *_address(error), f"Hint: {hint}"]
    if isinstance(error, BadAnswer):
        hint = f"Check that {server} is an Airflow API server with the NeMo jobs API."
        return [f"API response error: {error}", *_address(error), f"Hint: {hint}"]
    if isinstance(error, CleartextToken):
        hint = "Use an https:// base URL, or reach the server through a tunnel to localhost."
        return [f"Unexpected error: {error}", f"Hint: {hint}"]
    return [f"Error: {error}"]


def _https_hint(error: ConnectionFailed, session: Session, server: str) -> str | None:
    # OpenSSL's word for an answer that is no TLS.
    if "WRONG_VERSION_NUMBER" not in str(error):
        return None
    return f"The server {server} does not speak TLS. Is its address {session.display_url.replace('https', 'http', 1)}?"


def _slow_hint(error: TimedOut, server: str) -> str:
    hint = f"The server {server} is very busy, hangs, or is no Airflow API server. Its log says more; try again later."
    if error.method == "POST" and urlsplit(error.url).path.endswith("/jobs"):
        hint += " The job may have been created: look with nemo jobs list before you create it again."
    return hint


def _api_lines(error: ApiError, session: Session) -> list[str]:
    prefix = _PREFIXES.get(error.status) or ("Server error" if error.status >= 500 else "API error")
    hint = _api_hint(error, session)
    address = [] if error.status in _WITHOUT_ADDRESS else _address(error)
    return [f"{prefix}: {error}", *address, *([f"Hint: {hint}"] if hint else [])]


def _api_hint(error: ApiError, session: Session) -> str | None:
    if error.status >= 500:
        return _unavailable_hint(error.detail) if error.status == 503 else _SERVER_HINT
    if error.status == 401:
        refused_login = error.url.endswith(LOGIN_PATH)
        return "Check user name and password." if refused_login else login_hint(session)
    if error.status == 403 and error.text == "Invalid JWT token":
        source = f" from {session.token_source}" if session.token_source else ""
        return (
            f"The token{source} is not of this server or has expired. Run nemo login again, or set NHX_ACCESS_TOKEN "
            "to a token of this server."
        )
    if error.status == 409 and error.method == "DELETE":
        name = unquote(urlsplit(error.url).path.rpartition("/")[2])
        return f"Run nemo jobs cancel {name}, wait until the job has ended, then delete it."
    if error.status == 409 and "referenced secrets" in error.text:
        return (
            "Check each from_secret of the job. Whoever runs Airflow sets a secret with airflow variables set "
            "nemo_secret.WORKSPACE.NAME VALUE; one of another workspace has to be granted too ([nemo] secret_grants)."
        )
    if error.status == 422 and error.method == "POST" and error.url.endswith("/jobs"):
        profiles = "See nemo jobs list-execution-profiles. " if "execution profile" in error.text else ""
        return f"{profiles}Correct this in the job and create it again."
    return _HINTS.get(error.status)


def _unavailable_hint(detail: Any) -> str | None:
    # The jobs API says itself what is away and what to do, and a gateway before it has no `detail` at all.
    if not isinstance(detail, str):
        return _SERVER_HINT
    return _CONFIGURATION_HINT if _CONFIGURATION_ERROR.match(detail) else None


def login_hint(session: Session) -> str:
    """How to get a token that the server takes."""
    if session.has_foreign_token and session.record is not None:
        stored = without_credentials(str(session.record.cluster.get("base_url")))
        return (
            f"The token of context '{session.record.name}' is for {stored} and was not sent to "
            f"{session.display_url}. Run nemo --base-url {session.display_url} --context NAME login, or set "
            "NHX_ACCESS_TOKEN."
        )
    return "Run nemo login, or set NHX_ACCESS_TOKEN to a token of this server."


def _address(error: ClientError) -> list[str]:
    if not error.url:
        return []
    path = urlsplit(error.url).path
    return [f"Request: {error.method} {error.url}", f"Target: jobs API route {path}"]


def _terminal(session: Session) -> Terminal:
    try:
        return session.terminal
    except NemoJobsError:
        # The colour setting itself is what is wrong.
        return Terminal(colour=False)
