"""How a container is asked to end, and the note in it that says so: beside its step's configuration, as the engine has
no place of its own for it. It is written before the engine is asked, and lasts as long as the container.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.container import environment
from nemo_airflow_provider.backends.container.places import CONFIG_DIRECTORY
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.archive import Entry, packed
from nemo_airflow_provider.backends.docker.engine import refusal
from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from docker import APIClient

_NAME = ".stop-asked"
#: For an engine that says no: it does so at once, and yes only when the container has ended.
_REFUSAL_SECONDS = 0.25
#: Beside the grace, for the container to be gone.
_KILL_SECONDS = 60


def note_stop(client: APIClient, container: Mapping[str, Any]) -> None:
    """Write it down; a container that cannot take it, such as on a disk that is full, is stopped all the same.

    :param container: the engine's description of it
    """
    from docker.errors import APIError

    with suppress(APIError):
        client.put_archive(container["Id"], "/", packed([Entry(_note(container), 0o600, b"")]))


def was_asked(client: APIClient, container: Mapping[str, Any]) -> bool:
    """Whether the note is there.

    :param container: the engine's description of it
    :raises docker.errors.APIError: the engine cannot tell now
    """
    return exists(client, container["Id"], _note(container))


def _note(container: Mapping[str, Any]) -> str:
    directory = variable(container, environment.CONFIG_DIRECTORY) or CONFIG_DIRECTORY
    return f"{directory.rstrip('/')}/{_NAME}"


def variable(container: Mapping[str, Any], name: str) -> str | None:
    """A variable of a container's environment; None where it has none of that name."""
    for item in container["Config"].get("Env") or []:
        key, _, value = item.partition("=")
        if key == name:
            return str(value)
    return None


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
    asking.asks.wait()
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
        #: Set when the request goes out, or nothing will.
        self.asks = threading.Event()
        #: Why it was not stopped.
        self.error: BackendError | None = None

    def run(self) -> None:
        """Ask; see `threading.Thread.run`."""
        from docker.errors import APIError, NotFound

        try:
            with self._access.told(), closing(self._access.client()) as client:
                url = f"{client.base_url}/v{client.api_version}/containers/{self._container}/stop"
                seconds = self._grace_seconds + _KILL_SECONDS
                self.asks.set()
                answer = client.post(url, params={"t": self._grace_seconds}, timeout=(client.timeout, seconds))
                client._raise_for_status(answer)
        except NotFound:
            return
        except APIError as error:
            self.error = BackendError(f"The engine does not stop {self._container}: {refusal(error)}")
        except BackendError as error:
            self.error = error
        finally:
            self.asks.set()
