"""What one invocation runs with: global options over environment over context file over defaults."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from nemo_airflow_provider.cli import contextfile
from nemo_airflow_provider.cli.terminal import Terminal
from nemo_airflow_provider.client.address import without_credentials
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.client.transport import DEFAULT_BASE_URL, DEFAULT_TRIES, DEFAULT_WORKSPACE, Transport
from nemo_airflow_provider.errors import NemoJobsError

FORMATS = ("table", "json", "yaml", "markdown", "csv", "raw", "code")
TIMESTAMP_FORMATS = ("iso8601", "relative")

_NEW_CONTEXT = "default"
_T = TypeVar("_T")
_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_FALSE = frozenset({"0", "false", "no", "off", "n", "f"})


class SettingError(NemoJobsError):
    """A setting of the environment or the context file has a value that means nothing."""


class ExpiredToken(NemoJobsError):
    """The stored token is of no use any more."""


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """The options before the command; None where not given."""

    context: str | None = None
    base_url: str | None = None
    access_token: str | None = None
    output_format: str | None = None
    timestamp_format: str | None = None
    no_truncate: bool = False
    verbose: bool = False


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value and where it comes from, for messages."""

    value: str
    source: str


class Session:
    """One invocation. `options` is set when the command line is parsed; the rest follows from it on demand.

    :param now: seconds since 1970
    :param sleep: how every wait of the invocation is spent
    """

    def __init__(self, now: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep) -> None:
        self.options = GlobalOptions()
        self.sleep = sleep
        self._now = now

    @cached_property
    def file(self) -> Path:
        """Where the context file is, or would be."""
        return contextfile.path()

    @cached_property
    def content(self) -> contextfile.Record:
        """The context file."""
        return contextfile.load(self.file)

    @property
    def context_name(self) -> str | None:
        """The context asked for; None leaves it to the file."""
        return self.options.context or os.environ.get("NHX_CURRENT_CONTEXT") or None

    @cached_property
    def record(self) -> contextfile.ContextRecord | None:
        """The context in force.

        :raises ContextFileError: the context asked for is not in the file
        """
        return contextfile.select(self.content, self.context_name, self.file)

    def context_to_fill(self) -> str:
        """The name of the context that a login is for; one that is not there yet holds nothing."""
        name = str(self.context_name or self.content.get("current_context") or _NEW_CONTEXT)
        if contextfile.find(self.content, "contexts", name) is None:
            self.record = None
        return name

    @cached_property
    def base_url(self) -> Sourced:
        """The server."""
        if self.options.base_url:
            return Sourced(self.options.base_url, "--base-url")
        if chosen := os.environ.get("NHX_BASE_URL"):
            return Sourced(chosen, "NHX_BASE_URL")
        if self.record is not None and self._stored_base_url:
            return Sourced(self._stored_base_url, f"context '{self.record.name}' of {self.file}")
        return Sourced(DEFAULT_BASE_URL, "the default")

    @property
    def _stored_base_url(self) -> str | None:
        return str(self.record.cluster.get("base_url") or "") if self.record else None

    @property
    def certificate_authority(self) -> str | None:
        """PEM bundle of the context's cluster."""
        stored = self.record.cluster.get("certificate_authority") if self.record else None
        return str(stored) if stored else None

    @cached_property
    def workspace(self) -> str:
        """Where jobs are looked for when a command does not say."""
        stored = self.record.context.get("workspace") if self.record else None
        return os.environ.get("NHX_WORKSPACE") or str(stored or DEFAULT_WORKSPACE)

    @cached_property
    def token(self) -> str | None:
        """The token to send.

        :raises ExpiredToken: only an expired one is stored
        """
        given = self._given_token
        return given.value if given else self._stored_token()

    @property
    def token_source(self) -> str | None:
        """Where the token comes from; None without one."""
        given = self._given_token
        if given is not None:
            return given.source
        holds = self.record is not None and self.record.user.get("token") and self._is_stored_server()
        return f"context '{self.record.name}'" if holds and self.record else None

    @property
    def _given_token(self) -> Sourced | None:
        for value, source in (
            (self.options.access_token, "--access-token"),
            (os.environ.get("NHX_ACCESS_TOKEN"), "NHX_ACCESS_TOKEN"),
            (os.environ.get("AIRFLOW_CLI_TOKEN"), "AIRFLOW_CLI_TOKEN"),
        ):
            if value:
                return Sourced(value, source)
        return None

    @property
    def has_foreign_token(self) -> bool:
        """Whether the context holds a token that is kept back because it is for another server."""
        record = self.record
        return bool(record and record.user.get("token")) and not self._is_stored_server()

    def _is_stored_server(self) -> bool:
        stored = self._stored_base_url
        return not stored or stored.rstrip("/") == self.base_url.value.rstrip("/")

    def _stored_token(self) -> str | None:
        if self.record is None or self.record.user.get("type") != "oauth" or not self._is_stored_server():
            return None
        user = self.record.user
        expires_at = user.get("expires_at")
        if isinstance(expires_at, int | float) and expires_at <= self._now():
            raise ExpiredToken(
                f"Access token has expired and no refresh token is available. It is that of user "
                f"'{user.get('name')}' in {self.file}"
            )
        token = user.get("token")
        return str(token) if token else None

    @property
    def output_format(self) -> str | None:
        """The format asked for outside of the command; None: what suits command and reader."""
        if self.options.output_format:
            return self.options.output_format
        if chosen := os.environ.get("NHX_OUTPUT_FORMAT"):
            return _one_of(chosen, FORMATS, "NHX_OUTPUT_FORMAT")
        stored = self._preference("output_format", str)
        # `table` is what upstream writes into every new context: a default, not a wish.
        return _one_of(stored, FORMATS, str(self.file)) if stored and stored != "table" else None

    @property
    def relative_times(self) -> bool:
        """Whether tables show `3h ago` for a moment."""
        chosen = (
            self.options.timestamp_format
            or os.environ.get("NHX_TIMESTAMP_FORMAT")
            or self._preference("timestamp_format", str)
            or "iso8601"
        )
        return _one_of(chosen, TIMESTAMP_FORMATS, "NHX_TIMESTAMP_FORMAT or the context file") == "relative"

    @property
    def truncates(self) -> bool:
        """Whether long cells are cut."""
        return not self.options.no_truncate and self._flag("NHX_TRUNCATE", "truncate")

    @cached_property
    def terminal(self) -> Terminal:
        """Where output goes."""
        return Terminal(colour=self._flag("NHX_COLOR_OUTPUT", "color_output"))

    def _flag(self, variable: str, preference: str) -> bool:
        value = os.environ.get(variable)
        if not value:
            stored = self._preference(preference, bool)
            return True if stored is None else stored
        if value.strip().lower() in _TRUE:
            return True
        if value.strip().lower() in _FALSE:
            return False
        raise SettingError(f"{variable} is {value!r}; it must be true or false")

    def _preference(self, key: str, kind: type[_T]) -> _T | None:
        value = self.record.preferences.get(key) if self.record else None
        return value if isinstance(value, kind) else None

    def client(self, *, tries: int = DEFAULT_TRIES) -> JobsClient:
        """A client of the server in force; the caller closes it.

        :param tries: as for `Transport`
        """
        transport = Transport(
            self.base_url.value,
            token=self.token,
            certificate_authority=self.certificate_authority,
            sleep=self.sleep,
            tries=tries,
        )
        return JobsClient(workspace=self.workspace, transport=transport)

    @property
    def display_url(self) -> str:
        """The server without credentials."""
        return without_credentials(self.base_url.value)


def _one_of(value: str, allowed: tuple[str, ...], where: str) -> str:
    if value not in allowed:
        raise SettingError(f"{value!r} from {where} is not one of {', '.join(allowed)}")
    return value
