"""Being told of changes of a workload's pods, by a connection to the API in a thread of its own.

What the API tells wakes whoever waits; it is looked at anew by whoever is woken. So a connection that breaks off, a
version that is too old (410) or an API that is started anew cost a look and nothing else. Of pods that are gone the
last that was told is kept: how their containers ended stands nowhere else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from nemo_airflow_provider.backends.base import Signal
from nemo_airflow_provider.backends.kube.answers import SIGN_OF_LIFE_SECONDS
from nemo_airflow_provider.backends.kube.cluster import Cluster, Thing, events_in
from nemo_airflow_provider.errors import BackendError

#: After which the API ends a connection; it is opened again at once.
_SECONDS = 300
_RETRY_SECONDS = 1.0
#: After a pod is gone, until the API has told so.
_LATE_SECONDS = 2.0
#: Between two looks for a wake-up.
_LOOK_SECONDS = 0.05


class Watch:
    """The pods with some labels, as long as somebody wants to know of them."""

    def __init__(self, cluster: Cluster, labels: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._labels = labels
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        #: Grows with each thing told.
        self.changes = 0
        #: Whether the API tells of changes now.
        self.is_open = False
        #: The last of each pod, by uid.
        self._told: dict[str, Thing] = {}
        self._gone: set[str] = set()

    def start(self) -> None:
        """Begin to listen; twice is harmless."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="nemo-kube-watch", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Listen no longer; the thread goes when the API next says something. Whoever waits is woken."""
        self._ended.set()
        self.changes += 1

    def wait(self, known: int, seconds: float, wake: Signal) -> None:
        """Return when more than the known changes were told, when `wake` is set, or after `seconds`."""
        until = time.monotonic() + seconds
        while self.changes <= known and not wake.is_set() and (left := until - time.monotonic()) > 0:
            wake.wait(min(_LOOK_SECONDS, left))

    def quiet(self, known: int, seconds: float, stop: Signal) -> Iterator[None]:
        """None at least once, and until more than the known changes were told, the API tells of none any more, `stop`
        is set, or `seconds` are over: what waits for a place may do so for days."""
        until = time.monotonic() + seconds
        yield None
        while self.is_open and self.changes <= known and not stop.is_set() and (left := until - time.monotonic()) > 0:
            self.wait(known, min(SIGN_OF_LIFE_SECONDS, left), stop)
            yield None

    def known(self) -> set[str]:
        """The uids of all pods that it was told of."""
        return set(self._told)

    def last(self, uids: Collection[str]) -> list[Thing]:
        """What was last told of pods that are there no longer; a word of their removal may be on its way."""
        until = time.monotonic() + _LATE_SECONDS
        while self.is_open and not self._gone.issuperset(uids) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        return [self._told[uid] for uid in sorted(uids)]

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            # Whoever looks next is told what is wrong; what happened meanwhile is seen then.
            with suppress(BackendError, ValueError, LookupError, TypeError, AttributeError):
                for event in self._events():
                    self._take(event)
                    if self._ended.is_set():
                        break
            self.is_open = False
            self._ended.wait(max(0.0, _RETRY_SECONDS - (time.monotonic() - began)))

    def _events(self) -> Iterator[Mapping[str, Any]]:
        with self._cluster.watched("pods", self._labels, _SECONDS) as response:
            self.is_open = True
            self.changes += 1  # whatever happened while nobody listened
            yield from events_in(response)

    def _take(self, event: Mapping[str, Any]) -> None:
        pod = event.get("object") or {}
        if uid := (pod.get("metadata") or {}).get("uid"):
            self._told[uid] = pod
            if event.get("type") == "DELETED":
                self._gone.add(uid)
        self.changes += 1
