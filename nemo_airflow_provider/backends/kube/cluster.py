"""One namespace of one cluster, as one process talks to it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

from nemo_airflow_provider.backends.kube.access import Access, Query, Refused
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model import names

#: Any object of the API, as JSON.
Thing = Mapping[str, Any]

_NAMESPACE_VARIABLE = "POD_NAMESPACE"
_MERGE_PATCH = "application/merge-patch+json"
#: Where kinds of objects are; `{}` stands for the namespace.
PLACES = {
    "namespaces": "/api/v1/namespaces",
    "configmaps": "/api/v1/namespaces/{}/configmaps",
    "events": "/api/v1/namespaces/{}/events",
    "persistentvolumeclaims": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "pods": "/api/v1/namespaces/{}/pods",
    "secrets": "/api/v1/namespaces/{}/secrets",
    "jobs": "/apis/batch/v1/namespaces/{}/jobs",
}
#: A list is asked for in pages, so that a namespace with many thousands of objects stays cheap.
_PAGE = 500
_CONTINUED_TOO_LATE = 410


class Cluster:
    """The API of a cluster, for one namespace; the way is looked up when it is first needed.

    :param connect: the way to the cluster; raises `BackendError` where it cannot be had
    :param namespace: that the profile names; None: that of the connection, else of the worker's own pod
    """

    def __init__(self, connect: Callable[[], Access], namespace: str | None = None) -> None:
        self._connect = connect
        self._namespace = namespace
        self._identity: str | None = None

    @cached_property
    def access(self) -> Access:
        """The way to the API.

        :raises BackendError: it cannot be had
        """
        return self._connect()

    @cached_property
    def namespace(self) -> str:
        """Where everything is made (configuration contract §5.3).

        :raises BackendError: nothing names one
        """
        found = self._namespace or self.access.namespace or os.environ.get(_NAMESPACE_VARIABLE)
        if not found:
            raise BackendError(
                f"Unable to determine current namespace, {_NAMESPACE_VARIABLE} environment variable not set. Set "
                "namespace in the step's profile, or in the connection that it names."
            )
        return found

    def identity(self) -> str:
        """`<namespace>/<its uid>`: as long as it stays, so does what is in it; no other cluster has the same.

        :raises BackendError: the API does not answer, or does not say
        """
        if self._identity is None:
            found = self.access.ask("GET", f"{PLACES['namespaces']}/{self.namespace}")
            self._identity = f"{self.namespace}/{found['metadata']['uid']}"
        return self._identity

    def path(self, kind: str, name: str = "") -> str:
        """Where objects of a kind are, or the one of a name."""
        place = PLACES[kind].format(self.namespace)
        return f"{place}/{name}" if name else place

    def get(self, kind: str, name: str) -> Thing | None:
        """The object of a name; None where there is none."""
        try:
            found: Thing = self.access.ask("GET", self.path(kind, name))
        except Refused as error:
            if error.is_absence:
                return None
            raise
        return found

    def list(self, kind: str, labels: Mapping[str, str] | None = None, fields: str | None = None) -> list[Thing]:
        """Every object of a kind.

        :param labels: which ones, by values as `names.label_value` makes them
        :param fields: which ones, as a field selector
        """
        wanted = selector(labels) if labels else None
        found: list[Thing] = []
        go_on: str | None = None
        while True:
            query = {"labelSelector": wanted, "fieldSelector": fields, "limit": _PAGE, "continue": go_on}
            try:
                page = self.access.ask("GET", self.path(kind), query=query)
            except Refused as error:
                if error.status != _CONTINUED_TOO_LATE or go_on is None:
                    raise
                found, go_on = [], None
                continue
            found += page.get("items") or []
            go_on = page["metadata"].get("continue")
            if not go_on:
                return found

    def create(self, kind: str, body: Thing) -> Thing | None:
        """Make an object; None where there is one of its name already. What the API does not know is an error."""
        try:
            made: Thing = self.access.ask("POST", self.path(kind), body, query={"fieldValidation": "Strict"})
        except Refused as error:
            if error.reason == "AlreadyExists":
                return None
            raise
        return made

    def patch(self, kind: str, name: str, body: Thing) -> Thing | None:
        """Change an object; None where there is none."""
        try:
            changed: Thing = self.access.ask("PATCH", self.path(kind, name), body, kind=_MERGE_PATCH)
        except Refused as error:
            if error.is_absence:
                return None
            raise
        return changed

    def delete(
        self,
        kind: str,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_seconds: int | None = None,
    ) -> bool:
        """Remove an object, and what it owns after it; one that is gone is gone.

        :param uid: of the object that is meant, if another one may have its name by now
        :param version: as which it was seen, if it must not have changed since
        :param grace_seconds: of a pod; None: its own
        :return: False where the object is another one, or has changed
        """
        meant = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
        body = {
            "propagationPolicy": "Background",
            **({"preconditions": meant} if meant else {}),
            **({"gracePeriodSeconds": grace_seconds} if grace_seconds is not None else {}),
        }
        try:
            self.access.ask("DELETE", self.path(kind, name), body)
        except Refused as error:
            if error.status == 409 and meant:
                return False
            if not error.is_absence:
                raise
        return True

    def log(self, pod: str, query: Query, read_seconds: float | None = None) -> AbstractContextManager[Any]:
        """The response with the output of a pod's container (Kubernetes API, "read log of the specified Pod").

        :param read_seconds: most seconds without a byte; None: for ever
        """
        return self.access.opened("GET", f"{self.path('pods', pod)}/log", read_seconds=read_seconds, query=query)

    @contextmanager
    def watched(self, kind: str, labels: Mapping[str, str], seconds: int) -> Iterator[Any]:
        """The response that has a line for each object that is there, and for each change of one.

        :param seconds: after which the API ends it
        """
        query = {"watch": "true", "labelSelector": selector(labels), "timeoutSeconds": seconds}
        # The API says nothing while nothing changes, so its own timer must come first.
        with self.access.opened("GET", self.path(kind), read_seconds=seconds + 10, query=query) as response:
            yield response


def events_in(response: Any) -> Iterator[Thing]:
    """What a watch tells, one event a line."""
    left = b""
    for block in response.stream(None, decode_content=False):
        *lines, left = (left + block).split(b"\n")
        yield from map(json.loads, filter(None, lines))


def selector(labels: Mapping[str, str]) -> str:
    """What the API is asked for to find objects with these labels."""
    return ",".join(f"{name}={names.label_value(value)}" for name, value in labels.items())
