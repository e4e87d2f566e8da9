"""The way to a cluster's API, and what to say when it is closed."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.kube.caller import Caller, Renew
from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

#: Parameters of a question; None is left out.
Query = Mapping[str, object]

#: For a connection, and for the beginning of an answer.
CONNECT_SECONDS, ANSWER_SECONDS = 5, 30
_USERINFO = re.compile(r"^([^:/]*://)[^/]*@")


class Refused(BackendError):
    """The cluster's API answered, and said no.

    :param status: of HTTP
    :param words: the API's own, in one line
    :param reason: its word for machines, such as `AlreadyExists`
    """

    def __init__(self, message: str, status: int, words: str, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.words = words
        self.reason = reason

    @property
    def is_absence(self) -> bool:
        """Whether there is no such object; a 404 of something in between says nothing of that."""
        return self.status == 404 and self.reason == "NotFound"


@dataclass(frozen=True)
class Access:
    """A cluster's address and what is shown to it.

    :param configuration: of the Kubernetes client
    :param namespace: that the connection names, if one does
    :param connection: id of the Airflow connection that says so; None: the worker's own way
    :param renew: see `Caller`; raises `BackendError`
    """

    configuration: Configuration = field(repr=False)
    namespace: str | None = None
    connection: str | None = None
    renew: Renew | None = field(default=None, repr=False, compare=False)

    @property
    def shown_url(self) -> str:
        """The address, without who asks there."""
        return _USERINFO.sub(r"\1***@", str(self.configuration.host))

    @cached_property
    def _caller(self) -> Caller:
        return Caller(self.configuration, self.renew)

    def ask(
        self, method: str, path: str, body: Any = None, *, kind: str | None = None, query: Query | None = None
    ) -> Any:
        """One question.

        :param body: anything that is JSON
        :param kind: of the body, where it is not plain JSON
        :return: the answer's JSON
        :raises Refused: the API says no
        :raises BackendError: it does not answer
        """
        with self.opened(method, path, body, kind=kind, read_seconds=ANSWER_SECONDS, query=query) as response:
            data = response.read()
        try:
            found = json.loads(data)
        except ValueError as error:
            raise BackendError(_sentence(f"{self._named()} does not answer as a Kubernetes API does.")) from error
        if not isinstance(found, dict):
            raise BackendError(_sentence(f"{self._named()} does not answer as a Kubernetes API does."))
        return found

    @contextmanager
    def opened(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str | None = None,
        read_seconds: float | None = None,
        query: Query | None = None,
    ) -> Iterator[Any]:
        """The response of a question, a `urllib3.HTTPResponse` to be read; closed in the end.

        :param read_seconds: most seconds without a byte; None: for ever
        """
        from kubernetes.client.exceptions import ApiException

        headers = {"Accept": "application/json, */*", **({"Content-Type": kind} if kind else {})}
        given = [(name, value) for name, value in (query or {}).items() if value is not None]
        with self.told():
            try:
                response = self._caller.call(
                    path,
                    method,
                    query_params=given,
                    header_params=headers,
                    body=body,
                    auth_settings=["BearerToken"],
                    _return_http_data_only=True,
                    _preload_content=False,
                    _request_timeout=(CONNECT_SECONDS, read_seconds),
                )
            except ApiException as error:
                raise self._refused(error, path) from error
            try:
                yield response
            finally:
                # What was read to its end has gone back to the pool already.
                response.close()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn what keeps the API from being reached into one sentence.

        :raises BackendError: it cannot be reached
        """
        from kubernetes.config import ConfigException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except (HTTPError, OSError, ConfigException) as error:
            raise BackendError(f"No answer from {self._named()}: {_reason(error)}. {self._remedy()}") from error

    def _named(self) -> str:
        return f"the Kubernetes API at {self.shown_url}"

    def _remedy(self) -> str:
        if self.connection:
            return f"See the Airflow connection '{self.connection}'."
        return "Name another cluster by the profile's kubernetes_conn_id, or see the worker's KUBECONFIG."

    def _refused(self, error: Any, path: str) -> BackendError:
        """What the API said, in one sentence; an answer of something between us and it is none."""
        status = _status_of(error.body)
        if not error.status:  # the client's own word for TLS that failed
            return BackendError(f"TLS with {self._named()} failed: {_line(error.reason)}. {self._remedy()}")
        words = _line(str(status.get("message") or error.reason or ""))
        if error.status == 401:
            text = f"{self._named()} does not know us (401 {words}). {self._remedy()}"
            return Refused(_sentence(text), 401, words, "Unauthorized")
        text = f"{self._named()} refuses: {words or path}"
        return Refused(_sentence(text), int(error.status), words, str(status.get("reason") or ""))


def _status_of(body: object) -> Mapping[str, Any]:
    """The API's `Status` object in an answer; empty where it is something else."""
    try:
        found = json.loads(body) if isinstance(body, str | bytes) else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "Status" else {}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(text: str) -> str:
    return " ".join(str(text).split())


def _reason(error: BaseException) -> str:
    """What the system itself says, in one line."""
    pending, seen = [error], set[int]()
    words = _line(str(error)) or type(error).__name__
    while pending:
        each = pending.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, ssl.SSLError):
            return f"TLS failed: {(getattr(each, 'verify_message', '') or each.reason or str(each)).lower()}"
        if isinstance(each, OSError) and each.errno is not None and each.strerror:
            return str(each.strerror).lower()
        if isinstance(each, TimeoutError) or "timed out" in str(each):
            words = "timed out"
        inner = [getattr(each, "reason", None), each.__cause__, each.__context__, *each.args]
        pending += [item for item in inner if isinstance(item, BaseException)]
    return words.rstrip(".")
