"""How a container is asked to end, and the note in it that says so: beside its step's configuration, as the engine has
no place of its own for it. It is written before the engine is asked, and lasts as long as the container.
"""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.archive import Entry, packed
from nemo_airflow_provider.backends.docker.body import CONFIG_DIRECTORY
from nemo_airflow_provider.backends.docker.engine import refusal
from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from docker import APIClient

_NAME = ".stop-asked"
#: For an engine that says no: it does so at once, and yes only when the container has ended.
_REFUSAL_SECONDS = 0.25
#: Beside the grace, for the container to be gone.
_KILL_SECONDS = 60


def note_stop(client: APIClient, container: str) -> None:
    """Write it down; a container that cannot take it, such as on a disk that is full, is stopped all the same."""
    from docker.errors import APIError

    with suppress(APIError):
        client.put_archive(container, "/", packed([Entry(f"{CONFIG_DIRECTORY}/{_NAME}", 0o600, b"")]))


def was_asked(client: APIClient, container: str) -> bool:
    """Whether the note is there."""
    return exists(client, container, f"{CONFIG_DIRECTORY}/{_NAME}")


def exists(client: APIClient, container: str, path: str) -> bool:
    """Whether a path is there in a container, running or not.

    :raises docker.errors.APIError: the engine cannot tell now
    """
    url = f"{client.base_url}/v{client.api_version}/containers/{container}/archive"
    answer = client.head(url, params={"path": path}, timeout=client.timeout)
    if answer.status_code == 404:
        return False
    client._raise_for_status(answer)
    return True


def ask_to_stop(access: Access, container: str, grace_seconds: int) -> None:
    """Have the engine stop a container, and not wait for that.

    The connection is kept as long as this process lives: some engines (Docker 23 and 24, moby#45731) give no grace any
    more once nobody listens.

    :raises BackendError: the engine refuses, or is away
    """
    asking = _Asking(access, container, grace_seconds)
    asking.start()
    asking.join(_REFUSAL_SECONDS)
    if asking.error is not None:
        raise asking.error


class _Asking(threading.Thread):
    """One question to stop a container, until it has ended."""

    def __init__(self, access: Access, container: str, grace_seconds: int) -> None:
        super().__init__(name="nemo-docker-stop", daemon=True)
        self._access = access
        self._container = container
        self._grace_seconds = grace_seconds
        #: Why it was not stopped.
        self.error: BackendError | None = None

    def run(self) -> None:
        """Ask; see `threading.Thread.run`."""
        from docker.errors import APIError, NotFound

        try:
            with self._access.told(), closing(self._access.client()) as client:
                url = f"{client.base_url}/v{client.api_version}/containers/{self._container}/stop"
                seconds = self._grace_seconds + _KILL_SECONDS
                answer = client.post(url, params={"t": self._grace_seconds}, timeout=(client.timeout, seconds))
                client._raise_for_status(answer)
        except NotFound:
            return
        except APIError as error:
            self.error = BackendError(f"The engine does not stop {self._container}: {refusal(error)}")
        except BackendError as error:
            self.error = error
