"""Being told of changes, and going on when the API breaks off."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.watch import Watch
from nemo_airflow_provider.errors import BackendError
from tests.waiting import wait_until


class Connection:
    """One response of the API: what a test says it tells."""

    def __init__(self) -> None:
        self.blocks: queue.Queue[bytes | Exception | None] = queue.Queue()

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        while (block := self.blocks.get()) is not None:
            if isinstance(block, Exception):
                raise block
            yield block

    def tell(self, kind: str, **metadata: Any) -> None:
        event = {"type": kind, "object": {"metadata": {"uid": "u", **metadata}}}
        self.blocks.put(json.dumps(event).encode() + b"\n")


class Clusters:
    """A cluster whose connections are those that a test hands out."""

    def __init__(self, *connections: Connection) -> None:
        self.left = list(connections)
        self.opened = 0

    @contextmanager
    def watched(self, *_: Any) -> Iterator[Connection]:
        self.opened += 1
        if not self.left:
            raise BackendError("away")
        yield self.left.pop(0)


def watch(cluster: Clusters) -> Watch:
    found = Watch(cast(Cluster, cluster), {"a": "b"})
    found.start()
    return found


def test_a_waiter_is_woken_by_a_change() -> None:
    connection = Connection()
    found = watch(Clusters(connection))
    wait_until(lambda: found.is_open)
    known = found.changes
    threading.Timer(0.05, lambda: connection.tell("MODIFIED")).start()
    begin = time.monotonic()
    found.wait(known, 60, threading.Event())
    assert found.changes > known
    assert time.monotonic() - begin < 30
    found.end()
    connection.blocks.put(None)


def test_a_waiter_is_woken_when_nobody_listens_any_more() -> None:
    found = Watch(cast(Cluster, Clusters()), {})
    known = found.changes
    found.end()
    found.wait(known, 60, threading.Event())
    assert found.changes > known


def test_a_waiter_that_has_missed_a_change_does_not_wait() -> None:
    connection = Connection()
    found = watch(Clusters(connection))
    connection.tell("ADDED")
    wait_until(lambda: found.changes >= 2)
    begin = time.monotonic()
    found.wait(1, 60, threading.Event())
    assert time.monotonic() - begin < 30
    found.end()
    connection.blocks.put(None)


def test_a_waiter_may_be_woken_and_waits_no_longer_than_it_says() -> None:
    found = Watch(cast(Cluster, Clusters()), {})
    wake = threading.Event()
    wake.set()
    found.wait(0, 60, wake)
    found.wait(0, 0.05, threading.Event())


def test_what_was_removed_is_kept_as_it_was_last() -> None:
    """Also where the API tells of it later than it lists pods without it."""
    connection = Connection()
    found = watch(Clusters(connection))
    connection.tell("MODIFIED", name="MODIFIED")
    wait_until(found.known)
    threading.Timer(0.1, lambda: connection.tell("DELETED", name="DELETED")).start()
    assert [pod["metadata"]["name"] for pod in found.last({"u"})] == ["DELETED"]
    found.end()
    connection.blocks.put(None)


def test_what_was_removed_is_told_as_it_was_seen_where_nobody_tells() -> None:
    connection = Connection()
    found = watch(Clusters(connection))
    connection.tell("MODIFIED", name="MODIFIED")
    wait_until(found.known)
    connection.blocks.put(BackendError("reset"))
    assert [pod["metadata"]["name"] for pod in found.last({"u"})] == ["MODIFIED"]
    found.end()


def test_events_may_arrive_in_pieces() -> None:
    connection = Connection()
    found = watch(Clusters(connection))
    line = json.dumps({"type": "DELETED", "object": {"metadata": {"uid": "ü"}}}, ensure_ascii=False).encode() + b"\n"
    for byte in line:
        connection.blocks.put(bytes([byte]))
    wait_until(found.known)
    found.end()
    connection.blocks.put(None)


def test_an_api_that_breaks_off_is_asked_again() -> None:
    broken, expired, last = Connection(), Connection(), Connection()
    broken.blocks.put(BackendError("reset"))
    expired.blocks.put(b'{"type": "ERROR", "object": {"kind": "Status", "code": 410}}\n')
    expired.blocks.put(None)
    cluster = Clusters(broken, expired, last)
    found = watch(cluster)
    last.tell("DELETED")
    wait_until(found.known)
    assert cluster.opened == 3
    assert found.is_open
    last.blocks.put(None)
    wait_until(lambda: cluster.opened == 4 and not found.is_open)
    found.end()
