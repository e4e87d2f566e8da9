"""Runs in upstream's own Python: calls its unmodified `JobsClient`, one JSON line in and one out.

In:  `{"method": "get_job", "arguments": {"name": "x"}}`; `watch` and `pages` are methods too.
Out: `{"answer": …}`, or `{"error": <class>, "status": <HTTP status or null>, "text": …}`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from nemo_helix_plugin.client.errors import NemoClientError
from nemo_helix_plugin.client.response import NemoPaginatedResponse
from nemo_helix_plugin.jobs.client import JobsClient
from nemo_helix_plugin.jobs.types import CreateHelixJobRequest
from nemo_helix_plugin.jobs.watch import watch_job
from nemo_helix_plugin.jobs.watch_types import JobWatchTimeoutError
from pydantic import BaseModel


def plain(value: Any) -> Any:
    """Upstream's models and events as JSON data."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return [plain(item) for item in value] if isinstance(value, list) else value


def call(client: JobsClient, method: str, arguments: dict[str, Any]) -> Any:
    if method == "watch":
        return [plain(event) for event in watch_job(client, **{"timeout": 60, **arguments})]
    if method == "pages":
        pages = getattr(client, arguments.pop("of"))(**arguments).pages()
        return [{"items": plain(page.items), "metadata": plain(page.metadata)} for page in pages]
    if "body" in arguments:
        arguments["body"] = CreateHelixJobRequest.model_validate(arguments["body"])
    response = getattr(client, method)(**arguments)
    if isinstance(response, NemoPaginatedResponse):
        return [plain(item) for item in response.items()]
    return plain(response.data())


def main(base_url: str, token: str) -> None:
    client = JobsClient(base_url=base_url, workspace="default", auth=token or None)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            told = {"answer": call(client, asked["method"], asked["arguments"])}
        except (NemoClientError, JobWatchTimeoutError) as error:
            status = getattr(error, "status_code", None)
            told = {"error": type(error).__name__, "status": status, "text": str(error)}
        print(json.dumps(told, default=str), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
