"""The persistent storage of jobs: a directory each in the profile's volume, `jobs/<workspace>/<run>`.

A container that is never started, the *keeper*, mounts the whole volume: through it the directory is made, and it says
that there is one to be removed. Only to remove it a container runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.archive import Entry, packed
from nemo_airflow_provider.backends.docker.engine import made, refusal
from nemo_airflow_provider.errors import BackendError, StartError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey

if TYPE_CHECKING:
    from docker import APIClient

_INSIDE = "/nemo-job-storage"
#: The first version of the engine's API that mounts a directory of a volume (Engine API, version history).
SUBPATH_VERSION = (1, 45)
_REMOVAL_SECONDS = 120


def directory_of(workspace: str, run_id: str, run_key: str) -> str:
    """Where in the volume a run has its storage; runs of one name do not share it."""
    return f"jobs/{workspace}/{run_id}.{run_key}"


def mount(
    client: APIClient, volume: str, key: WorkloadKey, installation: str, image: str, target: str
) -> dict[str, Any]:
    """Have the run's directory, and how a container mounts it.

    :param volume: name of the profile's volume
    :param image: any that the engine has
    :param target: where the container sees it
    :raises StartError: this engine cannot mount a part of such a volume
    """
    directory = directory_of(key.workspace, key.run_id, key.run_key)
    _have_keeper(client, volume, key, installation, image, directory)
    if tuple(map(int, client.api_version.split("."))) >= SUBPATH_VERSION:
        return {"Type": "volume", "Source": volume, "Target": target, "VolumeOptions": {"Subpath": directory}}
    details = client.inspect_volume(volume)
    if not is_plain(details):
        raise StartError(
            f"Volume '{volume}' is not a plain directory of the engine's host; to give a job a part of it needs "
            "Docker 26 or newer."
        )
    return {"Type": "bind", "Source": f"{details['Mountpoint']}/{directory}", "Target": target}


def is_plain(volume: Mapping[str, Any]) -> bool:
    """Whether a volume, as the engine describes it, is a directory of its host and nothing else."""
    return volume.get("Driver") == "local" and not volume.get("Options")


def _have_keeper(
    client: APIClient, volume: str, key: WorkloadKey, installation: str, image: str, directory: str
) -> None:
    name = names.storage_name(key.job, key.run_key)
    body = {
        "Image": image,
        "Cmd": ["never-started"],
        "Labels": labels.of_run(installation, key.workspace, key.run_id, key.run_key, labels.STORAGE),
        "HostConfig": {"NetworkMode": "none", "Mounts": [_whole(volume)]},
    }
    made(client, name, body)
    parts = directory.split("/")
    above = [Entry(f"{_INSIDE}/{'/'.join(parts[:depth])}", 0o755) for depth in range(1, len(parts))]
    client.put_archive(name, "/", packed([*above, Entry(f"{_INSIDE}/{directory}", 0o777)]))


def remove(
    client: APIClient, keeper: Mapping[str, Any], run: tuple[str, str, str], image: str, fetch: Callable[[str], None]
) -> None:
    """Remove a run's directory, then its keeper.

    :param keeper: the engine's listing of it
    :param image: one that has `rm`
    :param fetch: pulls an image; raises `BackendError`
    :raises BackendError: it cannot be removed now
    """
    from docker.errors import APIError

    volume = next((each["Name"] for each in keeper["Mounts"] if each.get("Destination") == _INSIDE), None)
    if volume is not None:
        body = {
            "Image": image,
            "Entrypoint": ["rm", "-rf", f"{_INSIDE}/{directory_of(*run)}"],
            "Cmd": [],
            "Labels": {**keeper["Labels"], labels.TYPE: labels.REMOVAL},
            "HostConfig": {"NetworkMode": "none", "Mounts": [_whole(volume)]},
        }
        try:
            _have(client, image, fetch)
            _run(client, body)
        except APIError as error:
            raise BackendError(f"Job storage of run {run[1]} cannot be removed: {refusal(error)}") from error
        except BackendError as error:
            raise BackendError(
                f"Job storage of run {run[1]} cannot be removed with storage.volume_permissions_image: {error}"
            ) from error
    # Volumes that the image declares go with it; that of the storage has a name, and stays.
    client.remove_container(keeper["Id"], force=True, v=True)


def _have(client: APIClient, image: str, fetch: Callable[[str], None]) -> None:
    from docker.errors import ImageNotFound

    try:
        client.inspect_image(image)
    except ImageNotFound:
        fetch(image)


def _run(client: APIClient, body: Mapping[str, Any]) -> None:
    container = client.create_container_from_config(body)["Id"]
    try:
        client.start(container)
        code = _exit_code(client, container)
    finally:
        client.remove_container(container, force=True, v=True)
    if code != 0:
        raise BackendError(f"its rm ended with exit code {code}.")


def _exit_code(client: APIClient, container: str) -> int:
    from requests.exceptions import ConnectionError, ReadTimeout
    from urllib3.exceptions import ReadTimeoutError

    try:
        return int(client.wait(container, timeout=_REMOVAL_SECONDS)["StatusCode"])
    except (ReadTimeout, ConnectionError) as error:
        # The engine begins its answer at once, and what cuts a begun one off is a ConnectionError to `requests`.
        if isinstance(error, ReadTimeout) or any(isinstance(each, ReadTimeoutError) for each in error.args):
            text = f"its rm took longer than {_REMOVAL_SECONDS} s; the next sweep goes on with it."
            raise BackendError(text) from error
        raise


def _whole(volume: str) -> dict[str, Any]:
    return {"Type": "volume", "Source": volume, "Target": _INSIDE}
