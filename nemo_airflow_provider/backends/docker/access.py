"""The way to an engine, and what to say when it is closed."""

from __future__ import annotations

import os
import pwd
import re
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from docker import APIClient

SOCKET = "unix:///var/run/docker.sock"
_SECONDS = 60
#: A connection on which nothing comes is looked at after half a minute, and given up within two.
_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
        if hasattr(socket, name)
    ),
)
#: What an engine that speaks TLS says to who does not (Go's `net/http`).
_PLAIN_HTTP = "HTTP request to an HTTPS server"
#: Scheme and userinfo of an address; a user has no '@', a password may.
_USERINFO = re.compile(r"^(\s*[^:/]*://)([^/]*)@")


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

    url: str = field(default=SOCKET, repr=False)
    tls: Any = None
    logins: Mapping[str, Login] = field(default_factory=dict)
    connection: str | None = None

    @property
    def shown_url(self) -> str:
        """The address without who asks there, which may be a secret."""
        return _USERINFO.sub(r"\1***@", self.url)

    def client(self) -> APIClient:
        """A client that speaks the engine's own version of its API.

        :raises BackendError: the engine cannot be reached; the text says what to do
        """
        if (userinfo := _USERINFO.match(self.url)) and ":" in userinfo[2]:
            raise BackendError(
                f"{self._named()} is {self.shown_url}, with a password in it, which no engine asks for: leave it out."
            )
        with self.told():
            try:
                return _client_class()(base_url=self.url, tls=self.tls or False, version="auto", timeout=_SECONDS)
            except ValueError as error:
                if isinstance(error, OSError):  # those of `requests`
                    raise
                # What cannot be read may have a password anywhere.
                words = "" if "@" in self.url else f": {self.url}: {error}"
                raise BackendError(f"{self._named()} is no address{words}.") from None

    def _named(self) -> str:
        """Where the address comes from."""
        own = "the variable DOCKER_HOST"
        return f"docker_url in the extra of connection '{self.connection}', or {own}," if self.connection else own

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn what keeps the engine from being reached into one sentence; its answers pass.

        :raises BackendError: it cannot be reached
        """
        from docker.errors import APIError, DockerException, StreamParseError, TLSParameterError
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        closed = (DockerException, TLSParameterError, StreamParseError, RequestException, HTTPError, HTTPException)
        try:
            yield
        except APIError:
            raise
        except (*closed, OSError, *_of_ssh()) as error:
            # The words of an error may have the address too.
            cause = error if self.shown_url == self.url else None
            raise BackendError(self._sentence(error)) from cause

    def _sentence(self, error: BaseException) -> str:
        causes = list(_causes(error))
        reason = _reason(causes).replace(self.url.strip(), self.shown_url)
        where = f"the Docker engine at {self.shown_url}"
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


def _of_ssh() -> tuple[type[Exception], ...]:
    """What the client's SSH raises; nothing, as long as nobody has asked for one."""
    paramiko = sys.modules.get("paramiko")
    return () if paramiko is None else (paramiko.SSHException,)


@cache
def _client_class() -> type[APIClient]:
    import docker
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection

    class Kept(HTTPAdapter):
        """Lets the kernel look after connections on which nothing comes: a network that lost one does not say so."""

        def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
            options["socket_options"] = [*HTTPConnection.default_socket_options, *_KEEP_ALIVE]
            super().init_poolmanager(*arguments, **options)

    class Client(docker.APIClient):  # type: ignore[misc]
        """Believes the certificate that it is told to, whatever the environment names.

        `requests` takes `REQUESTS_CA_BUNDLE` for more than the session's own.
        """

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if self.base_url.startswith(("http://", "https://")):
                for scheme in ("http://", "https://"):
                    self.mount(scheme, Kept())

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
        if told := _of_protocol(cause):
            return told
    return " ".join(str(causes[0]).split()) or type(causes[0]).__name__


def _of_protocol(cause: BaseException) -> str | None:
    from docker.errors import StreamParseError
    from requests.exceptions import Timeout

    if isinstance(cause, Timeout | TimeoutError):
        return "timed out"
    if isinstance(cause, IncompleteRead | StreamParseError):
        return "it broke off in the middle of an answer"
    if isinstance(cause, JSONDecodeError | BadStatusLine):
        return str(cause).lower() if isinstance(cause, RemoteDisconnected) else "it does not answer as an engine does"
    return str(cause).lower() if isinstance(cause, HTTPException) else None


def _user() -> str:
    """Whose permission counts; variables such as LOGNAME may say otherwise."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
