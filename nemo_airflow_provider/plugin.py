"""Mounts the jobs API on Airflow's API server, nothing else.

Every task process imports this module: FastAPI, SQLAlchemy and our service are imported only when the API server
asks for the apps.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow.plugins_manager import AirflowPlugin


class NemoPlugin(AirflowPlugin):  # type: ignore[misc]
    """`/apis/jobs` on the API server."""

    name = "nemo"

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        """Import what every step needs before task processes are forked, so that they do not each import it."""
        super().on_load(*args, **kwargs)
        if _forks_task_processes(sys.argv):
            from nemo_airflow_provider import preload  # noqa: F401

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The mounted apps (Airflow documentation, "Plugins")."""
        from nemo_airflow_provider.api.app import create_app

        return [{"name": "NeMo jobs", "app": create_app(), "url_prefix": "/apis/jobs"}]


def _forks_task_processes(argv: list[str]) -> bool:
    """Whether this is the scheduler (which forks the workers of LocalExecutor) or a Celery worker."""
    return argv[1:2] == ["scheduler"] or argv[1:3] == ["celery", "worker"]
