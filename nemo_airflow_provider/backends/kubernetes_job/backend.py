"""The Kubernetes Job backend: a step is a `batch/v1` Job of one pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from nemo_airflow_provider.backends.base import (
    Backend,
    Chunk,
    Observation,
    Phase,
    Position,
    Signal,
    Site,
    Workload,
)
from nemo_airflow_provider.backends.container import labels
from nemo_airflow_provider.backends.kube import control, logs
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing
from nemo_airflow_provider.backends.kube.endings import INIT_FAILED
from nemo_airflow_provider.backends.kube.launch import Launch
from nemo_airflow_provider.backends.kube.lifetime import Lifetime
from nemo_airflow_provider.backends.kube.metadata import STOP_ASKED, key_of
from nemo_airflow_provider.backends.kube.pod import MAIN
from nemo_airflow_provider.backends.kube.pods import Pods
from nemo_airflow_provider.backends.kube.reports import KubeReports
from nemo_airflow_provider.backends.kubernetes_job.body import job_of
from nemo_airflow_provider.backends.kubernetes_job.config import KubernetesJobConfig
from nemo_airflow_provider.backends.kubernetes_job.observation import Look, newest
from nemo_airflow_provider.backends.powers import SupportsPause
from nemo_airflow_provider.errors import BackendError, OutputLost
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey

_KIND = "jobs"
#: While the API tells of changes, a pod that runs is looked at so often all the same.
_TRUSTED_SECONDS = 20.0
#: Between two looks at a pod that does not run yet, while the API does not tell of changes.
_START_SECONDS = 0.9
_POD_REMOVED = "The pod was removed before its output was read"
#: Until an API that does not answer is worth another question.
_AWAY_SECONDS = 1.0
#: Of the output of an init container that failed.
_INIT_LINES = 20
#: How often a pod that changes while it is asked to end is looked at again at once.
_TRIES = 10


class KubernetesJobBackend(KubeReports, Backend, SupportsPause):
    """Jobs of one namespace."""

    noun = "Pod"
    has_active_timer = False
    starts_at_once = False
    lost_text = "Job not found: it was removed by somebody, or by its cluster"

    def __init__(self, config: KubernetesJobConfig, site: Site) -> None:
        cluster = Cluster(lambda: site.connect("kubernetes", config.kubernetes_conn_id), config.namespace)
        super().__init__(config, cluster, _KIND, site.image_pull_secrets)
        self._launch = Launch(config, site, cluster, "kubernetes_job", _KIND, lambda task, _: job_of(task, config))
        self._pods = Pods(cluster)
        #: The last look at a workload that lives, and how many changes were told before it.
        self._seen: dict[WorkloadKey, tuple[Observation, int, datetime]] = {}

    def identity(self) -> str:
        """Namespace, and the uid by which it is told from others of its name."""
        return self._cluster.identity()

    def find(self, key: WorkloadKey) -> Sequence[WorkloadKey]:
        """See `Backend.find`; a pod whose Job was removed counts as long as it runs."""
        wanted = labels.of_every_start(key)
        pods = [pod for pod in self._cluster.list("pods", wanted) if _counts(pod)]
        found = {key_of(thing) for thing in (*self._cluster.list(_KIND, wanted), *pods)}
        return sorted(other for other in found if other is not None and other.run_id == key.run_id)

    def submit(self, workload: Workload) -> Mapping[str, Any]:
        """See `Backend.submit`; returns when the cluster has taken the Job."""
        job = self._launch.begin(workload)
        metadata = job["metadata"]
        # Before its first pod is there, so that no change is missed.
        self._pods.watch(workload.key)
        image = job["spec"]["template"]["spec"]["containers"][0]["image"]
        return {"namespace": metadata["namespace"], "job_name": metadata["name"], "image": image}

    def observe(self, key: WorkloadKey) -> Observation:
        """See `Backend.observe`; a pod that runs is not looked at again as long as the API tells of no change."""
        now = datetime.now(UTC)
        watch = self._pods.watched(key)
        changes = watch.changes if watch is not None else 0
        if watch is not None and watch.is_open and (last := self._seen.get(key)) is not None:
            seen, known, looked_at = last
            trusted = _TRUSTED_SECONDS if seen.phase is Phase.RUNNING else _START_SECONDS
            if known == changes and (now - looked_at).total_seconds() < trusted:
                return seen
        look = self._look(key, now)
        seen = look.observed()
        if seen.phase.lives:
            self._seen[key] = (seen, changes, now)
            return seen
        self._seen.pop(key, None)
        seen = self._with_last_words(seen, look)
        if seen.phase is Phase.ENDED and look.may_run_again:
            # Its queue has taken the room back, and would let it run a second time.
            self._remove_job(look.job)
        if seen.phase is Phase.ENDED and (pod := newest(look.pods)) is not None and control.has_others(pod):
            control.end_others(self._cluster, pod)
        # Of a pod that is gone, or about to, nothing else will know how it ended.
        if watch is not None and not look.gone and not any(map(_is_leaving, look.pods)):
            self._pods.forget(key)
        return seen

    def _with_last_words(self, seen: Observation, look: Look) -> Observation:
        """Of an init container that failed: its output is not the step's, and says why."""
        pod, error = newest(look.pods), seen.error or {}
        if pod is None or error.get("reason") != INIT_FAILED:
            return seen
        words = logs.tail(self._cluster, pod["metadata"]["name"], str(error["container"]), _INIT_LINES)
        return replace(seen, error={**error, "output": words}) if words else seen

    def _look(self, key: WorkloadKey, now: datetime) -> Look:
        job = self._job(key)
        present, gone = self._pods.present_and_gone(key)
        return Look(job, present, gone, self._pods.events, now, self._config.ttl_seconds_image_pull)

    def _job(self, key: WorkloadKey) -> Thing | None:
        job = self._cluster.get(_KIND, names.engine_name(key))
        return job if job is not None and key_of(job) == key else None

    def read_logs(self, key: WorkloadKey, position: Position | None, stop: Signal) -> Iterator[Chunk | None]:
        """See `Backend.read_logs`; a pod's output has one stream, so all of it is `stdout`."""
        while not stop.is_set():
            watch = self._pods.watched(key)
            known = watch.changes if watch is not None else 0
            # One look: a pod may run and end between two, and what it has said is read all the same.
            look = self._look(key, datetime.now(UTC))
            pod = newest(look.pods)
            if look.job is None and (pod is None or not control.keeps_output(pod)):
                return
            if pod is not None and control.main_state(pod).keys() & {"running", "terminated"}:
                yield from self._output(pod["metadata"]["name"], key, position, stop)
                return
            if not look.observed().phase.lives:
                if pod is None and look.was_seen_running:
                    raise OutputLost(_POD_REMOVED)
                return
            if watch is not None and watch.is_open:
                yield from watch.quiet(known, _TRUSTED_SECONDS, stop)
            else:
                yield None
                stop.wait(_START_SECONDS)

    def _output(self, pod: str, key: WorkloadKey, position: Position | None, stop: Signal) -> Iterator[Chunk | None]:
        life = Lifetime(self._cluster, pod, self._pods.watched(key), stop)
        yield from logs.read(self._cluster, pod, MAIN, key.task, position, stop, life.is_over, life.pause)

    def stop(self, key: WorkloadKey, grace_seconds: float) -> None:
        """See `Backend.stop`; what has no pod yet gets none any more."""
        for _ in range(_TRIES):
            job, pod = self._job(key), newest(self._pods.present(key))
            if job is None and pod is None:
                self._remove_leftovers(key)
                return
            if pod is not None and not control.may_run(pod):
                if self._look(key, datetime.now(UTC)).may_run_again:
                    self._remove_job(job)
                return
            if pod is None or "running" not in control.main_state(pod):
                if self._prevent(job, pod):
                    return
                continue
            if control.has_shorter_grace(pod, grace_seconds):
                if job is not None:
                    control.note_stop(self._cluster, _KIND, job, datetime.now(UTC))
                control.remove(self._cluster, pod, grace_seconds)
                return
            if control.ask_to_end(self._cluster, pod, datetime.now(UTC)):
                return
        raise BackendError(f"The pod of {key.task} changes too quickly to be asked to end")

    def _prevent(self, job: Thing | None, pod: Thing | None) -> bool:
        """Have nothing run that has not begun; False when it may have begun meanwhile.

        Its Job is removed: one that is suspended alone would run when its queue lets it go.
        """
        if job is not None and not control.is_final(job):
            note = {STOP_ASKED: datetime.now(UTC).isoformat()}
            patch = {"metadata": {"annotations": note}, "spec": {"suspend": True}}
            self._cluster.patch(_KIND, job["metadata"]["name"], patch)
        is_leaving = pod is None or "deletionTimestamp" in pod["metadata"]
        if not is_leaving and pod is not None and not control.remove_unchanged(self._cluster, pod):
            return False
        self._remove_job(job)
        return True

    def _remove_job(self, job: Thing | None) -> None:
        if job is not None:
            self._cluster.delete(_KIND, job["metadata"]["name"], uid=job["metadata"]["uid"])

    def _remove_leftovers(self, key: WorkloadKey) -> None:
        """What was made for it and may have no owner."""
        for kind in ("secrets", "configmaps"):
            found = self._cluster.get(kind, names.engine_name(key))
            if found is not None and key_of(found) == key:
                self._cluster.delete(kind, names.engine_name(key), uid=found["metadata"]["uid"])

    def cleanup(self, key: WorkloadKey) -> None:
        """Remove the Job and all that it owns, unless its task runs or is still to begin."""
        look = self._look(key, datetime.now(UTC))
        if look.observed().phase.lives:
            return
        kept = [pod for pod in look.pods if control.is_orphan(pod)]
        for kind, thing in ((_KIND, look.job), *(("pods", pod) for pod in kept)):
            if thing is not None:
                self._cluster.delete(kind, thing["metadata"]["name"], uid=thing["metadata"]["uid"])
        self._remove_leftovers(key)

    def wait(self, key: WorkloadKey, seconds: float, wake: Signal) -> None:
        """See `Backend.wait`; the API tells of changes of its pod."""
        watch, last = self._pods.watch(key), self._seen.get(key)
        known = last[1] if last is not None else watch.changes
        watch.wait(known, seconds if watch.is_open else min(seconds, _AWAY_SECONDS), wake)


def _counts(pod: Thing) -> bool:
    """Whether a pod is a workload, even if there is no Job for it."""
    return "running" in control.main_state(pod) or control.is_orphan(pod)


def _is_leaving(pod: Thing) -> bool:
    return "deletionTimestamp" in pod["metadata"]
