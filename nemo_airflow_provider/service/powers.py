"""Whether what is asked of a job is within the power of its profile's backend."""

from __future__ import annotations

from nemo_airflow_provider.backends.powers import SupportsFreeze, SupportsPause
from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.errors import Conflict
from nemo_airflow_provider.profiles import ProfileSet
from nemo_airflow_provider.service.view import JobView


def require_pause(view: JobView, profiles: ProfileSet) -> None:
    """Check that the step at hand can be paused as its profile says; one whose profile is gone is left to its runner.

    :raises Conflict: its backend lacks the power
    """
    step = view.step_at_hand
    executor = step.spec.executor if step else None
    profile = profiles.resolve(executor.provider, executor.profile) if executor else None
    if step is None or profile is None:
        return
    freezes = profile.config.pause == "freeze"
    backend = BACKENDS[profile.backend]
    if backend.provided and not backend.has(SupportsFreeze if freezes else SupportsPause):
        raise Conflict(
            f"Cannot pause job '{view.name}': step '{step.spec.name}' runs with execution profile '{profile}', whose "
            f"backend '{backend.name}' lacks the power to {'freeze' if freezes else 'pause'} a workload."
        )
