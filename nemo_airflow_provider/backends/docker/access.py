"""The way to an engine, and what to say when it is closed."""

from __future__ import annotations

import os
import pwd
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import BadStatusLine, HTTPException, RemoteDisconnected
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from docker import APIClient

SOCKET = "unix:///var/run/docker.sock"
_SECONDS = 60
#: What an engine that speaks TLS says to who does not (Go's `net/http`).
_PLAIN_HTTP = "HTTP request to an HTTPS server"


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
        with self.told():
            return _client_class()(base_url=self.url, tls=self.tls or False, version="auto", timeout=_SECONDS)

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
        if any(isinstance(cause, ssl.SSLError) for cause in causes) or _PLAIN_HTTP in reason or "TLS" in reason:
            fields = "tls_ca_cert, tls_client_cert and tls_client_key in the extra of connection"
            return f"TLS with {where} failed: {reason.rstrip('.')}. See " + (
                f"{fields} '{self.connection}'."
                if self.connection
                else "the variables DOCKER_TLS_VERIFY and DOCKER_CERT_PATH."
            )
        if any(isinstance(cause, PermissionError) for cause in causes) and self.url.startswith("unix:"):
            return (
                f"User '{_user()}' may not use {where}: permission denied. Make the user a member of the socket's "
                "group (usually docker) and start the worker again."
            )
        return f"No answer from {where}: {reason.rstrip('.')}. Start it, or " + (
            f"see docker_url in the extra of connection '{self.connection}'."
            if self.connection
            else "name an engine that runs by the profile's docker_conn_id or the variable DOCKER_HOST."
        )


@cache
def _client_class() -> type[APIClient]:
    import docker

    class Client(docker.APIClient):  # type: ignore[misc]
        """Believes the certificate that it is told to, whatever the environment names.

        `requests` takes `REQUESTS_CA_BUNDLE` for more than the session's own.
        """

        def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
            own = self.verify if verify is None else verify
            return super().merge_environment_settings(url, proxies, stream, own, cert)

    return Client


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
    from docker.errors import APIError
    from requests.exceptions import Timeout

    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            words = [cause.reason or str(cause), getattr(cause, "verify_message", "")]
            return ": ".join(word.replace("_", " ").lower() for word in words if word)
    for cause in causes:
        if isinstance(cause, APIError) and cause.explanation:
            return " ".join(str(cause.explanation).split())
        if isinstance(cause, OSError) and cause.errno is not None:
            # An address that is not found has a number of its own kind.
            return (cause.strerror or os.strerror(cause.errno)).lower()
    for cause in causes:
        if isinstance(cause, Timeout | TimeoutError):
            return "timed out"
        if isinstance(cause, JSONDecodeError | BadStatusLine) and not isinstance(cause, RemoteDisconnected):
            return "it does not answer as an engine does"
        if isinstance(cause, HTTPException):
            return str(cause).lower()
    return " ".join(str(causes[0]).split()) or type(causes[0]).__name__


def _user() -> str:
    """Whose permission counts; variables such as LOGNAME may say otherwise."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
