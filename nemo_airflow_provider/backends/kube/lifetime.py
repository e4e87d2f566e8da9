"""Whether anything is still to come of a pod's container; and pauses that end when that may have changed."""

from __future__ import annotations

from datetime import UTC, datetime

from nemo_airflow_provider.backends.base import Signal
from nemo_airflow_provider.backends.kube import control
from nemo_airflow_provider.backends.kube.causes import is_gone_silently
from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.pod import MAIN
from nemo_airflow_provider.backends.kube.podview import PodView
from nemo_airflow_provider.backends.kube.watch import Watch


class Lifetime:
    """That of one pod, as the reader of its output follows it.

    :param pod: its name
    :param watch: of the pod, where there is one
    :param stop: ends a pause
    """

    def __init__(self, cluster: Cluster, pod: str, watch: Watch | None, stop: Signal) -> None:
        self._cluster = cluster
        self._pod = pod
        self._watch = watch
        self._stop = stop
        #: What was told before the last question.
        self._known = 0

    def is_over(self) -> bool:
        """Whether the task's container has ended, or the pod is gone.

        :raises BackendError: the API does not answer
        """
        self._known = self._watch.changes if self._watch is not None else 0
        pod = self._cluster.get("pods", self._pod)
        return pod is None or not control.may_run(pod) or is_gone_silently(PodView(pod, (), MAIN), datetime.now(UTC))

    def pause(self, seconds: float) -> None:
        """Wait so long, or until something has changed since `is_over` asked: a node tells of an end a little later
        than the output ends."""
        if self._watch is not None and self._watch.is_open:
            self._watch.wait(self._known, seconds, self._stop)
        else:
            self._stop.wait(seconds)
