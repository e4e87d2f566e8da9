"""What a remote run is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_airflow_provider.client.auth import Bounds
from nemo_airflow_provider.client.errors import ClientError
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.remote.naming import Caller
from nemo_airflow_provider.remote.trouble import sentence


@dataclass(frozen=True, slots=True)
class Server:
    """The other server.

    :param connection: id of its Airflow connection
    :param url: without credentials
    :param workspace: where the job is to be
    :param open_client: a client, given how it spends its waits, and what bounds the request for its token
    """

    connection: str
    url: str
    workspace: str
    open_client: Callable[[Callable[[float], None], Bounds], JobsClient]

    def explain(self, error: ClientError) -> str:
        """See `trouble.sentence`."""
        return sentence(error, self.connection, self.url)


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """One try of a task that runs a job elsewhere.

    :param job: body of the create request, without name or with one that `name` was taken from
    :param name: of the job; None: one that follows from the caller
    :param poll_interval_seconds: between two looks; None: from 0.3 s while things happen to 3 s when not
    :param timeout_seconds: after which the job is cancelled, counted from its creation; None: never
    :param outage_seconds: how long the server may be in trouble
    :param cancel_on_kill: whether the job ends when a person ends the task
    :param results: names of the results to download; they are JSON
    :param max_result_bytes: for each
    :param max_log_lines: of either end of the log that are written to the task log
    """

    caller: Caller
    server: Server
    job: Mapping[str, Any]
    name: str | None
    poll_interval_seconds: float | None
    timeout_seconds: float | None
    outage_seconds: float
    cancel_on_kill: bool
    results: Sequence[str]
    max_result_bytes: int
    max_log_lines: int

    @property
    def has_many_steps(self) -> bool:
        """Whether its lines need their step's name."""
        platform_spec = self.job.get("platform_spec")
        steps = platform_spec.get("steps") if isinstance(platform_spec, Mapping) else None
        return isinstance(steps, Sequence) and len(steps) > 1
