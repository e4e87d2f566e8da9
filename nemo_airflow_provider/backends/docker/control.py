"""The note in a container that says that it was asked to end: beside its step's configuration, as the engine has no
place of its own for it. It is written before the engine is asked, and lasts as long as the container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemo_airflow_provider.backends.docker.archive import Entry, packed
from nemo_airflow_provider.backends.docker.body import CONFIG_DIRECTORY

if TYPE_CHECKING:
    from docker import APIClient

_NAME = ".stop-asked"


def note_stop(client: APIClient, container: str) -> None:
    """Write it down; a container that cannot take it is stopped all the same."""
    from docker.errors import APIError

    try:
        client.put_archive(container, "/", packed([Entry(f"{CONFIG_DIRECTORY}/{_NAME}", 0o600, b"")]))
    except APIError:
        return


def was_asked(client: APIClient, container: str) -> bool:
    """Whether the note is there."""
    return exists(client, container, f"{CONFIG_DIRECTORY}/{_NAME}")


def exists(client: APIClient, container: str, path: str) -> bool:
    """Whether a path is there in a container, running or not."""
    url = f"{client.base_url}/v{client.api_version}/containers/{container}/archive"
    return bool(client.head(url, params={"path": path}, timeout=client.timeout).status_code == 200)


def ask_to_stop(client: APIClient, container: str, grace_seconds: int) -> None:
    """Have the engine stop a container, and not wait for it: the engine goes on when nobody listens."""
    from requests.exceptions import ReadTimeout

    url = f"{client.base_url}/v{client.api_version}/containers/{container}/stop"
    try:
        client.post(url, params={"t": grace_seconds}, timeout=(client.timeout, 0.25)).close()
    except ReadTimeout:
        return
