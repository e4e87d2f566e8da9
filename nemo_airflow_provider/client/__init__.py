"""The Python SDK of the jobs API; the command line stands on it. Works on plain dicts, imports no Airflow.

>>> from nemo_airflow_provider.client import JobsClient
>>> with JobsClient("http://localhost:8080", token="…") as jobs:  # doctest: +SKIP
...     jobs.get_job_status("train-1")["status"]
"""

from __future__ import annotations

from nemo_airflow_provider.client.errors import (
    ApiError,
    BadAnswer,
    CleartextToken,
    ClientError,
    ConnectionFailed,
    TimedOut,
    Unsendable,
)
from nemo_airflow_provider.client.jobs import JobsClient, LogFilter
from nemo_airflow_provider.client.loglines import LineSource, LogEnd, WholeLog
from nemo_airflow_provider.client.transport import DEFAULT_BASE_URL, DEFAULT_WORKSPACE, JsonObject
from nemo_airflow_provider.client.watch import (
    JobEnded,
    LogLines,
    StatusChanged,
    Waiting,
    Watch,
    WatchTimeout,
    WatchWarning,
)

__all__ = [
    "DEFAULT_BASE_URL",
    "DEFAULT_WORKSPACE",
    "ApiError",
    "BadAnswer",
    "CleartextToken",
    "ClientError",
    "ConnectionFailed",
    "JobEnded",
    "JobsClient",
    "JsonObject",
    "LineSource",
    "LogEnd",
    "LogFilter",
    "LogLines",
    "StatusChanged",
    "TimedOut",
    "Unsendable",
    "Waiting",
    "Watch",
    "WatchTimeout",
    "WatchWarning",
    "WholeLog",
]
