"""A jobs API as an Airflow connection: an upstream server, or another Airflow with this package."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from airflow.sdk import BaseHook

from nemo_airflow_provider.client.address import is_loopback, without_credentials
from nemo_airflow_provider.client.auth import Bounds, lasts, token_for
from nemo_airflow_provider.client.errors import ClientError
from nemo_airflow_provider.client.jobs import EVERY_LINE, JobsClient, LogFilter
from nemo_airflow_provider.client.transport import DEFAULT_WORKSPACE, JsonObject, Transport
from nemo_airflow_provider.remote.trouble import RemoteTrouble, sentence

if TYPE_CHECKING:
    from airflow.sdk import Connection

_SCHEMES = ("http", "https")
#: A token that ends sooner is not begun with.
_LEAST_SECONDS = 60.0


class NemoJobsHook(BaseHook):  # type: ignore[misc]
    """Jobs of the server that a connection of type `nemo_jobs` names.

    Fields of the connection: `host` the base URL (`https://host[:port][/prefix]`), `password` a token; with `login`
    too, `password` is that user's of the other Airflow, which is asked for a token. Extra: `workspace`,
    `certificate_authority`. A method's `workspace` wins over the connection's.

    :param nemo_jobs_conn_id: id of the connection
    :raises ClientError: every method that asks the server, see `client.errors`
    """

    conn_name_attr = "nemo_jobs_conn_id"
    default_conn_name = "nemo_jobs_default"
    conn_type = "nemo_jobs"
    hook_name = "NeMo jobs API"

    def __init__(self, nemo_jobs_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.nemo_jobs_conn_id = nemo_jobs_conn_id
        #: The last one that the other Airflow gave for login and password.
        self._token: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections to the server back."""
        if "client" in self.__dict__:
            self.client.close()
            del self.__dict__["client"]

    @cached_property
    def connection(self) -> Connection:
        """The Airflow connection."""
        return self.get_connection(self.nemo_jobs_conn_id)

    @property
    def base_url(self) -> str:
        """The server's URL.

        :raises RemoteTrouble: the connection names none
        """
        return base_url_of(self.connection, self.nemo_jobs_conn_id)

    @property
    def display_url(self) -> str:
        """The server's URL without user and password."""
        return without_credentials(self.base_url)

    @property
    def workspace(self) -> str:
        """The connection's workspace."""
        return str(self.connection.extra_dejson.get("workspace") or DEFAULT_WORKSPACE)

    @cached_property
    def client(self) -> JobsClient:
        """The client that the hook's methods use."""
        return self.open_client()

    def get_conn(self) -> JobsClient:
        """The client that the hook's methods use."""
        return self.client

    def open_client(
        self, sleep: Callable[[float], None] = time.sleep, login_bounds: Bounds = nullcontext
    ) -> JobsClient:
        """A client of its own; the caller closes it.

        :param sleep: how waits between tries are spent
        :param login_bounds: what the request for a token is made within
        """
        connection, authority = self.connection, self.connection.extra_dejson.get("certificate_authority") or None
        token = connection.password or None
        if token and connection.login:
            if self._token is None or not lasts(self._token, _LEAST_SECONDS):
                self._token = token_for(
                    self.base_url,
                    connection.login,
                    token,
                    certificate_authority=authority,
                    sleep=sleep,
                    bounds=login_bounds,
                )
            token = self._token
        transport = Transport(self.base_url, token=token, certificate_authority=authority, sleep=sleep)
        return JobsClient(workspace=self.workspace, transport=transport)

    def explain(self, error: ClientError) -> str:
        """What went wrong and what to do, in one sentence."""
        return sentence(error, self.nemo_jobs_conn_id, self.display_url)

    def test_connection(self) -> tuple[bool, str]:
        """What Airflow's test button shows: (whether jobs can be made, a sentence)."""
        try:
            with self.open_client() as client:
                profiles = client.list_execution_profiles()
                client.list_jobs(page_size=1)
        except ClientError as error:
            # The button tests under another id, which nobody knows.
            return False, sentence(error, "under test", self.display_url)
        except RemoteTrouble as error:
            return False, str(error)
        return True, (
            f"{self.display_url} is a jobs API with {len(profiles)} execution profiles; "
            f"workspace '{self.workspace}' can be read."
        )

    # --- jobs -------------------------------------------------------------------------------------

    def create(self, job: Mapping[str, Any], *, workspace: str | None = None) -> JsonObject:
        """Make a job; the answer is the job as it was made."""
        return self.client.create_job(job, workspace=workspace)

    def get(self, name: str, *, workspace: str | None = None) -> JsonObject:
        """The job."""
        return self.client.get_job(name, workspace=workspace)

    def status(self, name: str, *, workspace: str | None = None) -> JsonObject:
        """Status of the job, its steps and their tasks."""
        return self.client.get_job_status(name, workspace=workspace)

    def cancel(self, name: str, *, workspace: str | None = None) -> JsonObject:
        """Ask for the job's end; the answer is the job after the request, not after the end."""
        return self.client.cancel_job(name, workspace=workspace)

    def iter_logs(
        self, name: str, *, workspace: str | None = None, which: LogFilter = EVERY_LINE, page_lines: int = 1000
    ) -> Iterator[JsonObject]:
        """Every line that is there, oldest first: `{timestamp, job, job_step, job_task, message}`.

        :param which: the attempt, step or task whose lines are meant
        :param page_lines: lines a request
        """
        for page in self.client.log_pages(name, workspace=workspace, which=which, limit=page_lines):
            yield from page["data"]

    def tail(
        self, name: str, lines: int = 100, *, workspace: str | None = None, which: LogFilter = EVERY_LINE
    ) -> list[JsonObject]:
        """The last lines, oldest first.

        :param lines: at most 10,000
        """
        rows: list[JsonObject] = self.client.get_logs(name, workspace=workspace, which=which, tail=lines)["data"]
        return rows

    def results(self, name: str, *, workspace: str | None = None) -> list[JsonObject]:
        """The job's results, without their content."""
        return self.client.list_results(name, workspace=workspace)

    def download_result(
        self, name: str, result: str, *, most_bytes: int = 64 * 1024**2, workspace: str | None = None
    ) -> bytes:
        """A result's content; a larger one than `most_bytes` is an error."""
        return self.client.download_result(name, result, most_bytes=most_bytes, workspace=workspace)


def base_url_of(connection: Connection, conn_id: str) -> str:
    """The URL in a connection's fields, however it was written: in `host` alone, or over host, port and schema as
    Airflow takes a connection's URI apart.

    :raises RemoteTrouble: there is none
    """
    host = (connection.host or "").rstrip("/")
    if not host:
        raise RemoteTrouble(f"Connection '{conn_id}' names no server: put its base URL into the field host.")
    schema = connection.schema or ""
    if "://" not in host:
        scheme = schema if schema in _SCHEMES else "http" if is_loopback(host) else "https"
        host = f"{scheme}://{host}"
    if connection.port:
        scheme, _, rest = host.partition("://")
        authority, slash, path = rest.partition("/")
        host = f"{scheme}://{authority}:{connection.port}{slash}{path}"
    prefix = "" if schema in _SCHEMES else schema.strip("/")
    return f"{host}/{prefix}" if prefix else host
