"""A Job, its pods and their events → how its workload stands: pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from nemo_airflow_provider.backends.base import Observation, Phase, StopReason
from nemo_airflow_provider.backends.kube.causes import cause_of
from nemo_airflow_provider.backends.kube.cluster import Thing
from nemo_airflow_provider.backends.kube.control import (
    has_ended_by_itself,
    is_ending,
    is_final,
    is_orphan,
    main_state,
    may_run,
    was_asked,
)
from nemo_airflow_provider.backends.kube.diagnosis import of_creation, of_pod
from nemo_airflow_provider.backends.kube.pod import MAIN
from nemo_airflow_provider.backends.kube.podview import PodView

#: Tells the events of the objects with these uids, newest last.
EventsOf = Callable[[Iterable[str]], Sequence[Thing]]

_REMOVED = "The Job was removed; its pod is ending"
_SUSPENDED = "Job is suspended: it waits for its queue to admit it, or somebody has suspended it"


@dataclass(frozen=True)
class Look:
    """Everything that one look at a workload finds.

    :param job: None: there is none of that name
    :param pods: of the workload, as the cluster has them
    :param gone: those that were removed, as they were last seen
    :param pull_seconds: how long a pull may keep failing; 0: for ever
    """

    job: Thing | None
    pods: Sequence[Thing]
    gone: Sequence[Thing]
    events_of: EventsOf
    now: datetime
    pull_seconds: int = 0

    def observed(self) -> Observation:
        """What it means."""
        pod = newest(self.pods)
        if self.job is None:
            return self._without_job(pod)
        asked = was_asked(self.job)
        if pod is not None:
            return self._of_pod(pod, asked)
        last = newest(self.gone)
        if last is not None and not may_run(last):
            return self._of_pod(last, asked)
        return self._without_pod(self.job, last, asked)

    @property
    def may_run_again(self) -> bool:
        """Whether a Job whose pod was removed is held back, and its controller will make another when it is let go."""
        job, stays = self.job, any("deletionTimestamp" not in pod["metadata"] for pod in self.pods)
        return job is not None and not stays and bool(job["spec"].get("suspend")) and not is_final(job)

    @property
    def was_seen_running(self) -> bool:
        """Whether the last of the pods that are gone had begun."""
        last = newest(self.gone)
        return last is not None and bool(main_state(last).keys() & {"running", "terminated"})

    def _of_pod(self, pod: Thing, asked: bool) -> Observation:
        runs = "running" in main_state(pod) and "deletionTimestamp" not in pod["metadata"]
        if has_ended_by_itself(pod):
            # What ran on beside it was ended by us.
            pod, asked = {**pod, "status": {**pod["status"], "reason": None}}, False
        stopped: StopReason | None = "asked" if asked or was_asked(pod) else None
        events = () if runs else self.events_of([pod["metadata"]["uid"]])
        seen = of_pod(pod, events, main=MAIN, stopped=stopped, now=self.now, pull_seconds=self.pull_seconds)
        if seen.phase is Phase.ENDED and is_ending(pod) and "deletionTimestamp" not in pod["metadata"]:
            return Observation(Phase.RUNNING, details=seen.details)
        return seen

    def _without_job(self, pod: Thing | None) -> Observation:
        """Its pods go with a Job that was removed, in their own time, unless they were kept on purpose."""
        if pod is not None and is_orphan(pod):
            return self._of_pod(pod, False)
        seen = Observation(Phase.ABSENT) if pod is None else self._of_pod(pod, False)
        if seen.phase is not Phase.RUNNING:
            return Observation(Phase.ABSENT)
        return replace(seen, message=_REMOVED, note=_REMOVED)

    def _without_pod(self, job: Thing, last: Thing | None, asked: bool) -> Observation:
        status = job.get("status") or {}
        conditions = {each["type"]: each for each in status.get("conditions") or [] if each.get("status") == "True"}
        details = {"job_name": job["metadata"]["name"]}
        if "Complete" in conditions or "SuccessCriteriaMet" in conditions:
            return Observation(Phase.ENDED, exit_code=0, details=details)
        if asked:
            return Observation(Phase.ENDED, stopped="asked", details=details)
        failed = conditions.get("Failed") or conditions.get("FailureTarget")
        has_failed = failed or status.get("failed")
        if job["spec"].get("suspend") and not has_failed and not self.was_seen_running:
            # With its pod, if it had one; whoever lets it go on makes another.
            return Observation(Phase.PENDING, message=_SUSPENDED, details=details, note=_SUSPENDED)
        if has_failed or last is not None:
            return self._removed_pod(job, last, failed or {}, details)
        if job["metadata"].get("deletionTimestamp"):
            return Observation(Phase.ABSENT)
        note, hopeless = of_creation(self.events_of([job["metadata"]["uid"]]), self.now)
        message = note or "Waiting for pods to be created for this job"
        return Observation(Phase.PENDING, message=message, details=details, hopeless=hopeless, note=note)

    def _removed_pod(
        self, job: Thing, last: Thing | None, failed: Mapping[str, Any], details: Mapping[str, Any]
    ) -> Observation:
        """Its pod was removed, and nobody saw how it ended; why may have been seen."""
        if last is not None:
            cause = cause_of(PodView(last, self.events_of([last["metadata"]["uid"]]), MAIN), asked=False)
            if cause is not None:
                error = {"reason": cause.reason}
                return Observation(Phase.ENDED, message=cause.text, details=details, error=error, fault=cause.fault)
        uids = [thing["metadata"]["uid"] for thing in (job, last) if thing is not None]
        words = [str(each.get("message")) for each in self.events_of(uids) if each.get("type") == "Warning"]
        told = [*words[-1:], *([str(failed["message"])] if failed.get("message") else [])]
        message = "The job's pod was removed before its end was seen"
        return Observation(
            Phase.ENDED,
            message=f"{message}: {told[0]}" if told else message,
            details=details,
            error={"reason": "PodRemoved"},
            fault="platform",
        )


def newest(pods: Sequence[Thing]) -> Thing | None:
    """The pod that counts, if there are several: one that nobody has removed, and the last that was made."""
    return max(pods, key=_rank, default=None)


def _rank(pod: Thing) -> tuple[bool, str]:
    metadata = pod["metadata"]
    return "deletionTimestamp" not in metadata, str(metadata.get("creationTimestamp", ""))
