"""The results of a job that completed."""

from __future__ import annotations

import json
from typing import Any

from nemo_airflow_provider.client.errors import ApiError, BadAnswer
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.remote.calls import Calls
from nemo_airflow_provider.remote.record import RemoteRecord
from nemo_airflow_provider.remote.task import RemoteTask
from nemo_airflow_provider.remote.trouble import is_no_jobs_api
from nemo_airflow_provider.runner import StepFailed


def fetch_results(client: JobsClient, call: Calls, task: RemoteTask, record: RemoteRecord) -> list[dict[str, Any]]:
    """`{name, artifact_url, content?}` of each result; content of those that the task asks for.

    :raises StepFailed: one of them is not there, too large or no JSON
    :raises ClientError: the server cannot be used
    """
    try:
        rows = call(lambda: client.list_results(record.name, workspace=record.workspace))
    except ApiError as error:
        if not is_no_jobs_api(error):
            raise
        rows = []  # a server that keeps no results
    found = {str(row.get("name")): {"name": row.get("name"), "artifact_url": row.get("artifact_url")} for row in rows}
    for name in task.results:
        if name not in found:
            there = ", ".join(sorted(found)) or "none"
            raise StepFailed(f"Job '{record.name}' completed without the result '{name}'; its results: {there}.")
        found[name]["content"] = _content(client, call, task, record, name)
    return list(found.values())


def _content(client: JobsClient, call: Calls, task: RemoteTask, record: RemoteRecord, name: str) -> Any:
    try:
        content = call(
            lambda: client.download_result(
                record.name, name, most_bytes=task.max_result_bytes, workspace=record.workspace
            )
        )
        return json.loads(content)
    except BadAnswer as error:
        raise StepFailed(
            f"Result '{name}' of job '{record.name}' cannot be returned: {error}. Leave it out of `results`, or raise "
            "`max_result_bytes`."
        ) from error
    except (ValueError, RecursionError) as error:
        raise StepFailed(f"Result '{name}' of job '{record.name}' is not JSON: leave it out of `results`.") from error
