"""A request for a job → the job that runs: what both the jobs API and `job_dag` do before they take one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_airflow_provider.model.body import unknown_keys
from nemo_airflow_provider.model.spec import JobRequest, JobSpec
from nemo_airflow_provider.profiles.profile_set import ProfileSet

#: Keys that the warning about unknown ones names.
_MAX_UNKNOWN = 20


def admitted(profiles: ProfileSet | None, request: JobRequest, given: Mapping[str, Any]) -> tuple[JobSpec, list[str]]:
    """The job that will run, and what its author should know of it.

    :param profiles: None where they cannot be had: nothing is asked of them
    :param given: the body as it came, to name the keys nobody knows
    :raises InvalidJob: it cannot run as written
    """
    platform_spec, warnings = request.platform_spec, list[str]()
    if profiles is not None:
        platform_spec, warnings = profiles.translate(platform_spec)
        profiles.check(platform_spec)
    if unknown := sorted(unknown_keys(given, request.model_dump(mode="json"))):
        warnings = [_unknown_text(unknown), *warnings]
    fields = request.model_dump(mode="json", exclude={"name", "platform_spec"})
    spec = JobSpec.model_validate({**fields, "platform_spec": platform_spec.model_dump(mode="json")})
    return spec, warnings


def conf_of(spec: JobSpec, warnings: Sequence[str]) -> dict[str, Any]:
    """What the run of an admitted job carries as its conf."""
    return spec.model_dump(mode="json") | ({"warnings": list(warnings)} if warnings else {})


def _unknown_text(paths: Sequence[str]) -> str:
    """A warning that stays with the job, however much there is to warn of."""
    shown = ", ".join(path if len(path) <= 200 else f"{path[:199]}…" for path in paths[:_MAX_UNKNOWN])
    more = len(paths) - _MAX_UNKNOWN
    return f"Unknown keys were ignored: {shown}" + (f" and {more} more" if more > 0 else "")
