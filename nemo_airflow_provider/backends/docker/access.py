"""The way to an engine, and what to say when it is closed."""

from __future__ import annotations

import errno
import getpass
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from docker import APIClient

SOCKET = "unix:///var/run/docker.sock"
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Login:
    """Credentials of a registry."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Access:
    """An engine's address and what is shown to it.

    :param url: `unix://…`, `tcp://…` or `ssh://…`
    :param tls: `docker.tls.TLSConfig`, or None
    :param logins: by registry host, as it begins an image's name
    :param connection: id of the Airflow connection that says so; None: the host's own engine
    """

    url: str = SOCKET
    tls: Any = None
    logins: Mapping[str, Login] = field(default_factory=dict)
    connection: str | None = None

    def client(self) -> APIClient:
        """A client that speaks the engine's own version of its API.

        :raises BackendError: the engine cannot be reached; the text says what to do
        """
        import docker

        with self.told():
            return docker.APIClient(base_url=self.url, tls=self.tls or False, version="auto", timeout=_SECONDS)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn what keeps the engine from being reached into one sentence; its answers pass.

        :raises BackendError: it cannot be reached
        """
        from docker.errors import APIError, DockerException, TLSParameterError
        from requests.exceptions import RequestException

        try:
            yield
        except APIError:
            raise
        except (DockerException, TLSParameterError, RequestException, OSError) as error:
            raise BackendError(self._sentence(error)) from error

    def _sentence(self, error: BaseException) -> str:
        causes = list(_causes(error))
        reason = _reason(causes)
        where = f"the Docker engine at {self.url}"
        numbers = {cause.errno for cause in causes if isinstance(cause, OSError)}
        if errno.EACCES in numbers or errno.EPERM in numbers:
            return (
                f"User '{_user()}' may not use {where}: permission denied. Make the user a member of the socket's "
                "group (usually docker) and start the worker again."
            )
        if any(isinstance(cause, ssl.SSLError) for cause in causes) or "SSL" in reason or "TLS" in reason:
            return f"TLS with {where} failed: {reason}. {self._see('tls_ca_cert, tls_client_cert and tls_client_key')}"
        return f"No answer from {where}: {reason}. Start it, or {self._see('docker_url').lower()}"

    def _see(self, fields: str) -> str:
        if self.connection is None:
            return "Name an engine that runs by the profile's docker_conn_id or the variable DOCKER_HOST."
        return f"See {fields} in the extra of connection '{self.connection}'."


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, and all that it carries: requests and urllib3 wrap the system's own several times."""
    pending, seen = [error], set[int]()
    while pending:
        each = pending.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = [getattr(each, "reason", None), each.__cause__, each.__context__]
        for argument in (*each.args, *inner):
            items = argument if isinstance(argument, tuple | list) else [argument]
            pending += [item for item in items if isinstance(item, BaseException)]


def _reason(causes: list[BaseException]) -> str:
    """What the system itself says, in one line."""
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return str(cause.reason or cause).replace("_", " ").lower()
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno).lower()
    return " ".join(str(causes[-1]).split()) or type(causes[-1]).__name__


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
