"""One engine, as one process talks to it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.diagnosis import began_at
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey

if TYPE_CHECKING:
    from docker import APIClient


_NAME_TRIES = 100
_NAME_SECONDS = 0.05
#: What an engine says to a client of the one that was there before.
_OTHER_VERSION = re.compile(r"client version \S+ is too (new|old)")


class DockerEngine:
    """The engine's client, made when it is first needed, and made again when that failed.

    :param connect: the way to the engine; raises `BackendError` where it cannot be had
    """

    def __init__(self, connect: Callable[[], Access]) -> None:
        self._connect = connect
        self._client: APIClient | None = None
        self._identity: str | None = None

    @cached_property
    def access(self) -> Access:
        """The way to the engine.

        :raises BackendError: it cannot be had
        """
        return self._connect()

    @contextmanager
    def asked(self) -> Iterator[APIClient]:
        """The client, for some questions; what the engine refuses, and is not caught, is told as it is.

        :raises BackendError: it cannot be reached, or refuses
        """
        from docker.errors import APIError

        if self._client is None:
            self._client = self.access.client()
        try:
            with self.access.told():
                yield self._client
        except APIError as error:
            if _OTHER_VERSION.search(refusal(error)):
                self._client = None  # the next one asks which version this engine speaks
            raise BackendError(f"The Docker engine at {self.access.shown_url} refuses: {refusal(error)}") from error

    def identity(self) -> str:
        """`<host>/<id of the engine>`; the id stays when the engine is started anew.

        :raises BackendError: it does not answer, or does not say
        """
        if self._identity is None:
            with self.asked() as client:
                info = client.info()
            if not info.get("Name") or not info.get("ID"):
                raise BackendError(
                    f"The Docker engine at {self.access.shown_url} does not say who it is: its `docker info` has no "
                    "Name or no ID."
                )
            self._identity = f"{info['Name']}/{info['ID']}"
        return self._identity

    def began_at(self, client: APIClient) -> datetime | None:
        """See `diagnosis.began_at`."""
        from docker.errors import NotFound

        try:
            return began_at(client.inspect_network("bridge"))
        except NotFound:
            return None

    def inspect(self, client: APIClient, key: WorkloadKey) -> Mapping[str, Any] | None:
        """The container of a workload; None where there is none, or one of that name that is not ours."""
        from docker.errors import NotFound

        try:
            found: Mapping[str, Any] = client.inspect_container(names.engine_name(key))
        except NotFound:
            return None
        return found if labels.key_of(found["Config"].get("Labels") or {}) == key else None


def made(client: APIClient, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container of a name, as the engine inspects it: made now, or by whoever was faster.

    A name is taken before its container can be found, and for a moment after it was removed.

    :param body: of `POST /containers/create`
    :raises APIError: the engine does not make it
    :raises BackendError: the name stays taken, and nothing is found under it
    """
    from docker.errors import APIError, NotFound

    for _ in range(_NAME_TRIES):
        try:
            client.create_container_from_config(body, name)
        except APIError as error:
            if error.status_code != 409:
                raise
        try:
            found: Mapping[str, Any] = client.inspect_container(name)
        except NotFound:
            time.sleep(_NAME_SECONDS)
        else:
            return found
    raise BackendError(f"The engine says that container {name} exists, and does not find it.")


def refusal(error: Any) -> str:
    """The engine's own words, in one line."""
    return " ".join(str(error.explanation or error).split())
