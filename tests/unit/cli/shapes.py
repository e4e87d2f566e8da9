"""Answers of the jobs API, as recorded in the contract."""

from __future__ import annotations

from typing import Any

JOBS = "/apis/jobs/v2/workspaces/default/jobs"
PROFILES = "/apis/jobs/v2/execution-profiles"
CREATED = "2026-12-01T10:38:53.471518+00:00"

PLATFORM_SPEC: dict[str, Any] = {
    "steps": [
        {
            "name": "s-one",
            "environment": None,
            "executor": {"provider": "subprocess", "profile": "default", "command": ["echo", "hi"]},
            "config": {},
            "lifecycle": {"staleness_timeout_seconds": 0},
        }
    ],
    "secrets": None,
}


def job(name: str = "pz-1", status: str = "completed", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"platform-job-{name}",
        "attempt_id": f"platform-job-attempt-{name}",
        "name": name,
        "workspace": "default",
        "project": None,
        "description": None,
        "source": "probe",
        "spec": {},
        "platform_spec": PLATFORM_SPEC,
        "fileset": f"job-fileset-{name}",
        "output_location": None,
        "status": status,
        "status_details": {},
        "error_details": None,
        "created_at": CREATED,
        "updated_at": CREATED,
        "ownership": None,
        "custom_fields": None,
    } | changes


def page(*rows: dict[str, Any], number: int = 1, pages: int = 1, total: int | None = None) -> dict[str, Any]:
    return {
        "data": [{key: value for key, value in row.items() if value is not None} for row in rows],
        "pagination": {
            "page": number,
            "page_size": 10,
            "current_page_size": len(rows),
            "total_pages": pages,
            "total_results": len(rows) if total is None else total,
        },
        "sort": "-created_at",
    }


def status(name: str = "pz-1", status: str = "completed", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"platform-job-{name}",
        "name": name,
        "status": status,
        "status_details": {},
        "error_details": None,
        "steps": [],
        "created_at": CREATED,
        "updated_at": CREATED,
    } | changes


def line(message: str, second: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "timestamp": f"2026-12-01T10:47:{second:02d}.000000+00:00",
        "job": "pz-1",
        "job_step": "s-one",
        "job_task": "task-c5cb00000000",
        "message": message,
    } | changes


def logs(
    *rows: dict[str, Any], next_page: str | None = None, prev_page: str | None = None, total: int | None = None
) -> dict[str, Any]:
    return {
        "data": list(rows),
        "total": len(rows) if total is None else total,
        "next_page": next_page,
        "prev_page": prev_page,
    }


def step(name: str = "s-one") -> dict[str, Any]:
    return {
        "id": "platform-job-step-1",
        "entity_id": "platform-job-step-1",
        "parent": "platform-job-attempt-pz-1",
        "job": "pz-1",
        "attempt_id": "platform-job-attempt-pz-1",
        "fileset": "job-fileset-pz-1",
        "workspace": "default",
        "name": name,
        "step_spec": {},
        "status": "completed",
        "status_details": {},
        "created_at": CREATED,
        "updated_at": CREATED,
    }


def task(name: str = "task-c5cb00000000") -> dict[str, Any]:
    return {
        "name": name,
        "workspace": "default",
        "step_id": "platform-job-step-1",
        "status": "completed",
        "status_details": {},
        "error_details": None,
        "error_stack": None,
        "id": "platform-job-task-1",
        "entity_id": "platform-job-task-1",
        "parent": "platform-job-step-1",
        "created_at": CREATED,
        "updated_at": CREATED,
    }
