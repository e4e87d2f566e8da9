"""An auth manager for tests: Airflow's simple one, which knows roles alone, and users who are denied single DAGs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

#: A JSON list of (user, beginning of a DAG id, method or `*`, entity or `*`).
DENIED = "NEMO_TEST_DENIED"

ROOT = Path(__file__).parents[2]

Rule = tuple[str, str, str, str]


def settings_of(denied: Iterable[Rule]) -> dict[str, str]:
    """The environment of an Airflow with these denials."""
    return {
        "AIRFLOW__CORE__AUTH_MANAGER": f"{__name__}.DenyingAuthManager",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        DENIED: json.dumps(list(denied)),
    }


class DenyingAuthManager(SimpleAuthManager):  # type: ignore[misc]
    """Denies what a rule names; else the role decides."""

    def is_authorized_dag(self, *, method: str, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        dag_id = (details.id if details else None) or ""
        entity = access_entity.value if access_entity else ""
        for who, start, which, what in json.loads(os.environ[DENIED]):
            if who == user.get_name() and dag_id.startswith(start) and which in ("*", method) and what in ("*", entity):
                return False
        allowed: bool = super().is_authorized_dag(
            method=method, user=user, access_entity=access_entity, details=details
        )
        return allowed
