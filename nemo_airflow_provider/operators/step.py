"""Operators that run one step of a job; one class a backend, so that Airflow's pages name what runs.

They hold wiring only: Airflow's context in, `runner.run_step`, Airflow's exceptions out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.errors import InvalidJob, Superseded
from nemo_airflow_provider.model.record import STEP_RETRIES
from nemo_airflow_provider.operators.host import TaskHost
from nemo_airflow_provider.operators.source import StepSource, open_profile
from nemo_airflow_provider.profiles import Profile
from nemo_airflow_provider.runner import StepFailed, StepLeft, Wakeup, run_step

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Airflow comes back this long after a worker had to go.
_COME_BACK = timedelta(seconds=5)


class JobStepOperator(BaseOperator):  # type: ignore[misc]
    """Runs one step of a job, on whatever its profile says.

    :param profile: `provider/name` of the execution profile
    :param source: which step it is
    """

    template_fields: Sequence[str] = ()
    ui_color = "#76b900"
    ui_fgcolor = "#000000"

    def __init__(
        self,
        *,
        profile: str,
        source: StepSource,
        retries: int = STEP_RETRIES,
        retry_delay: timedelta = timedelta(seconds=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.profile = profile
        self.source = source

    def execute(self, context: Context) -> None:
        """Run the step; see `runner.run_step`."""
        self._wakeup = Wakeup()
        host = TaskHost(context, self.log, self._wakeup)
        try:
            run_step(self.source.step_task(context, lambda: open_profile(self.profile)), host)
        except (StepFailed, InvalidJob) as error:
            raise AirflowFailException(str(error)) from None
        except StepLeft as error:
            self.log.warning("%s", error)
            raise AirflowRescheduleException(datetime.now(UTC) + _COME_BACK) from None
        except Superseded as error:
            self.log.warning("Another try of this step has taken over: %s", error)
            raise AirflowFailException("superseded by another try of this step") from None

    def on_kill(self) -> None:
        """Runs inside the signal handler: sets a flag and returns; the loop finds out why and acts."""
        wakeup = getattr(self, "_wakeup", None)
        if wakeup is not None:
            wakeup.set()


class SubprocessStepOperator(JobStepOperator):
    """A step that runs as a process on the worker's host."""


class DockerStepOperator(JobStepOperator):
    """A step that runs as a Docker container."""


class KubernetesJobStepOperator(JobStepOperator):
    """A step that runs as a Kubernetes Job."""


class VolcanoJobStepOperator(JobStepOperator):
    """A step that runs as a gang-scheduled Volcano Job."""


def operator_class(profile: Profile | None) -> type[JobStepOperator]:
    """The operator of a profile's backend; the neutral one when the profile is unknown."""
    if profile is None:
        return JobStepOperator
    found = globals()[BACKENDS[profile.backend].operator]
    assert isinstance(found, type) and issubclass(found, JobStepOperator)
    return found
