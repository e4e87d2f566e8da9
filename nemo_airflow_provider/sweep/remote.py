"""The office as a worker reaches it: our own API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from pydantic import TypeAdapter

from nemo_airflow_provider.errors import Unavailable
from nemo_airflow_provider.sweep.credential import Credential
from nemo_airflow_provider.sweep.office import AskedJob, Ending, JobStanding

PATH = "/apis/jobs/internal/sweep"
_SECONDS = 60.0
_STANDINGS = TypeAdapter(list[JobStanding])


class RemoteOffice:
    """`Office` over HTTP; use as a context manager.

    :param url: of the API server
    :param installation: as this worker sees it
    """

    def __init__(self, url: str, credential: Credential, installation: str) -> None:
        headers = {"Authorization": f"Bearer {credential.token}"}
        self._http = httpx.Client(base_url=url.rstrip("/") + PATH, headers=headers, timeout=_SECONDS)
        self._installation = installation

    def __enter__(self) -> RemoteOffice:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def chores(self) -> Mapping[str, int]:
        """See `Office`."""
        answer: dict[str, int] = self._post("/chores")
        return answer

    def standings(self, jobs: Sequence[AskedJob]) -> Sequence[JobStanding]:
        """See `Office`."""
        return _STANDINGS.validate_python(self._post("/standings", jobs=[job.model_dump() for job in jobs]))

    def settle(self, endings: Sequence[Ending]) -> int:
        """See `Office`."""
        return int(self._post("/endings", endings=[ending.model_dump() for ending in endings])["settled"])

    def _post(self, path: str, **body: Any) -> Any:
        try:
            answer = self._http.post(path, json={"installation": self._installation, **body})
        except httpx.HTTPError as error:
            raise Unavailable(f"The API server at {self._http.base_url} does not answer: {error}") from error
        if answer.is_success and "json" in answer.headers.get("content-type", ""):
            return answer.json()
        raise Unavailable(f"The API server at {self._http.base_url} answered {answer.status_code}: {_detail(answer)}")


def _detail(answer: httpx.Response) -> str:
    try:
        detail = answer.json().get("detail")
    except (ValueError, AttributeError):
        detail = None
    return str(detail or "it is no answer of the jobs API; is [api] base_url right?")
