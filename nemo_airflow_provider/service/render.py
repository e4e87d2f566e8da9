"""Views → the objects of the wire, key by key (REST contract §3.1, §4, §6)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.record import TaskRecord
from nemo_airflow_provider.model.status import Status
from nemo_airflow_provider.service.stepview import StepView
from nemo_airflow_provider.service.view import JobView, wire_time


def job(view: JobView, status: Status | None = None) -> dict[str, Any]:
    """A Job object.

    :param status: instead of the status it has now; `create` answers `created`
    """
    spec = view.spec
    return {
        "id": view.id,
        "attempt_id": view.attempt_id,
        "name": view.name,
        "workspace": view.workspace,
        "project": spec.project,
        "description": spec.description,
        "source": spec.source,
        "spec": spec.spec,
        "platform_spec": spec.platform_spec.model_dump(mode="json"),
        "fileset": names.fileset_name(view.name, spec.output_location),
        "output_location": spec.output_location,
        "status": str(status or view.status),
        "status_details": view.status_details,
        "error_details": view.error_details,
        "created_at": wire_time(view.run.run_after),
        "updated_at": wire_time(view.updated_at),
        "ownership": spec.ownership,
        "custom_fields": spec.custom_fields,
    }


def job_status(view: JobView) -> dict[str, Any]:
    """A JobStatus object: the steps that have a row, with their tasks."""
    return {
        "id": view.id,
        "name": view.name,
        "status": str(view.status),
        "status_details": view.status_details,
        "error_details": view.error_details,
        "steps": [_step_status(step) for step in view.steps],
        "created_at": wire_time(view.run.run_after),
        "updated_at": wire_time(view.updated_at),
    }


def _step_status(step: StepView) -> dict[str, Any]:
    return {
        "id": step.id,
        "name": step.spec.name,
        "status": str(step.status),
        "status_details": step.status_details,
        "error_details": step.error_details,
        "tasks": [
            {
                "id": names.task_id(step.job.key, task.name),
                "name": task.name,
                "status": str(task.status),
                "status_details": task.status_details,
                "error_details": task.error_details,
                "error_stack": task.error_stack,
                "created_at": wire_time(task.created_at),
                "updated_at": wire_time(task.updated_at),
            }
            for task in step.tasks
        ],
        "created_at": wire_time(step.created_at),
        "updated_at": wire_time(step.updated_at),
    }


def step_with_context(step: StepView) -> dict[str, Any]:
    """An item of the steps list; keys without value are absent (contract §1)."""
    location = step.job.spec.output_location
    item: dict[str, Any] = {
        "id": step.id,
        "job": step.job.name,
        "attempt_id": step.job.attempt_id,
        "fileset": names.fileset_name(step.job.name, location),
        "artifact_base_path": f"jobs/{step.job.name}" if location else None,
        "workspace": step.job.workspace,
        "name": step.spec.name,
        "step_spec": step.spec.model_dump(mode="json"),
        "status": str(step.status),
        "status_details": step.status_details,
        "error_details": step.error_details or None,
        "created_at": wire_time(step.created_at),
        "updated_at": wire_time(step.updated_at),
    }
    return {key: value for key, value in item.items() if value is not None}


def step(step: StepView) -> dict[str, Any]:
    """A Step object."""
    return {
        "name": step.spec.name,
        "workspace": step.job.workspace,
        "project": step.job.spec.project,
        "attempt_id": step.job.attempt_id,
        "config": {**step.spec.config, "_step_spec_name": step.spec.name},
        "status": str(step.status),
        "status_details": step.status_details,
        "error_details": step.error_details,
        **_entity(step, step.id, step.job.attempt_id, step.created_at, step.updated_at),
    }


def task(step: StepView, row: TaskRecord) -> dict[str, Any]:
    """A Task object."""
    return {
        "name": row.name,
        "workspace": step.job.workspace,
        "project": step.job.spec.project,
        "step_id": step.id,
        "status": str(row.status),
        "status_details": row.status_details,
        "error_details": row.error_details,
        "error_stack": row.error_stack,
        **_entity(step, names.task_id(step.job.key, row.name), step.id, row.created_at, row.updated_at),
    }


def _entity(step: StepView, identifier: str, parent: str, created_at: datetime, updated_at: datetime) -> dict[str, Any]:
    user = step.job.run.user or ""
    return {
        "id": identifier,
        "created_at": wire_time(created_at),
        "created_by": user,
        "updated_at": wire_time(updated_at),
        "updated_by": user,
        "entity_id": identifier,
        "parent": parent,
        "db_version": 1,
    }


def without_nulls(item: dict[str, Any]) -> dict[str, Any]:
    """Lists drop keys whose value is null (contract §1)."""
    return {key: value for key, value in item.items() if value is not None}
