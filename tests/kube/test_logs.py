"""Output of a real pod: much of it, of odd shapes, through a rotation of its file, and of a pod that is deleted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from threading import Event

import pytest

from nemo_airflow_provider.backends.base import Chunk
from nemo_airflow_provider.backends.kube import logs
from nemo_airflow_provider.backends.kube.access import Access
from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.resume import MARKER
from nemo_airflow_provider.errors import OutputLost
from tests.stack import kubernetes
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("kubernetes")
POD = "nemo-pod"


class Pod:
    """A pod with one container."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def start(self, script: str, *finalizers: str) -> None:
        container = {
            "name": "task",
            "image": kubernetes.image(),
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", script],
        }
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 20, "containers": [container]}
        metadata = {"name": POD, "finalizers": list(finalizers)}
        self.cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def is_over(self) -> bool:
        pod = self.cluster.get("pods", POD)
        return pod is None or pod["status"]["phase"] in ("Succeeded", "Failed")

    def end(self) -> None:
        wait_until(self.is_over, 60, "the pod's end", pause_seconds=0.1)

    def reader(self, position: object = None) -> Iterator[Chunk | None]:
        return logs.read(self.cluster, POD, "task", "t", position, Event(), self.is_over)

    def read(self, position: object = None) -> list[Chunk]:
        return [chunk for chunk in self.reader(position) if chunk]


@pytest.fixture
def pod() -> Iterator[Pod]:
    from kubernetes import config
    from kubernetes.client import Configuration

    configuration = Configuration()
    config.load_kube_config(kubernetes.kubeconfig(), client_configuration=configuration)
    with kubernetes.namespace() as namespace:
        yield Pod(Cluster(lambda: Access(configuration), namespace))


def text(chunks: list[Chunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


def test_every_line_is_there_and_read_on_from_anywhere(pod: Pod) -> None:
    # Read from before it has a node, while it writes.
    pod.start(
        "for part in 0 1 2 3 4; do seq $((part * 4000)) $((part * 4000 + 3999)); sleep 3; done; seq 20000 20999 >&2"
    )
    whole = pod.read()
    assert text(whole) == b"".join(b"%d\n" % number for number in range(21_000))
    for place in [0, len(whole) - 1, *random.Random(1).sample(range(len(whole)), 3)]:
        assert pod.read(whole[place].end) == whole[place + 1 :]
        assert pod.read(whole[place].start) == whole[place:]


def test_lines_of_odd_shapes(pod: Pod) -> None:
    script = r"""
        head -c 102400 /dev/zero | tr '\0' x; printf '\n\n\n'; printf '\000\377\376\r\n\200 \n'
        head -c 16384 /dev/zero | tr '\0' y; echo; sleep 12; head -c 40000 /dev/zero | tr '\0' z; printf ' no end'
    """
    pod.start(script)
    whole = pod.read()
    # containerd itself takes a carriage return at the end of a line for a part of that end.
    written = b"x" * 102_400 + b"\n\n\n" + b"\0\xff\xfe\n\x80 \n" + b"y" * 16_384 + b"\n" + b"z" * 40_000 + b" no end"
    assert text(whole) == written
    for number, chunk in enumerate(whole):
        assert pod.read(chunk.end) == whole[number + 1 :]


def test_a_reader_that_is_killed_while_the_pod_writes(pod: Pod) -> None:
    pod.start("for i in $(seq 1 200); do echo $i; [ $((i % 7)) = 0 ] && sleep 0.2; done; sleep 1; echo last")
    found: list[Chunk] = []
    choice = random.Random(2)
    while not found or found[-1].data != b"last\n":
        reader = pod.reader(found[-1].end if found else None)
        for _ in range(choice.randrange(1, 40)):
            chunk = next(reader, None)
            found += [chunk] if chunk else []
        reader.close()  # type: ignore[attr-defined]
    assert text(found) == b"".join(b"%d\n" % number for number in range(1, 201)) + b"last\n"
    assert pod.read() == found


def test_a_file_that_is_rotated(pod: Pod) -> None:
    """Kubelet looks each ten seconds for a file of more than 10 MiB, and hands out only the newest."""
    script = r"""
        head -c 12000000 /dev/zero | tr '\0' x | fold -w 1000; echo
        for i in $(seq 1 300); do echo tick $i; sleep 0.1; done
    """
    pod.start(script)
    whole = pod.read()
    ticks = b"".join(b"tick %d\n" % number for number in range(1, 301))
    assert text(whole) == (b"x" * 1000 + b"\n") * 12_000 + ticks
    there = pod.read()
    assert 0 < len(there) < 300
    # From what is still there one reads on exactly, and from what is not, all that is there.
    first = len(whole) - len(there)
    for place in (first, first + 1, len(whole) - 2):
        assert text(pod.read(whole[place].end)) == text(whole[place + 1 :])
    resumed = pod.read(whole[first - 5].end)
    assert text(resumed) == MARKER + text(there)
    assert pod.read(resumed[0].end) == resumed[1:]
    assert pod.read(resumed[0].start) == resumed


def test_the_last_words_of_a_pod_that_is_deleted(pod: Pod) -> None:
    """Its container is removed as soon as it has ended, though the pod stays while something holds it."""
    pod.start("trap 'printf bye; exit 3' TERM; echo ready; while :; do sleep 0.1; done", "nemo.test/held")
    try:
        reader = pod.reader()
        first = next(chunk for chunk in reader if chunk)
        pod.cluster.delete("pods", POD)
        assert text([first, *(chunk for chunk in reader if chunk)]) == b"ready\nbye"
        assert pod.is_over()
    finally:
        pod.cluster.patch("pods", POD, {"metadata": {"finalizers": None}})


def test_the_output_of_a_pod_that_is_gone_is_lost(pod: Pod) -> None:
    with pytest.raises(OutputLost, match=f"Pod {POD} was removed"):
        pod.read()
    assert logs.tail(pod.cluster, POD, "task", 5) == ""


def test_the_tail(pod: Pod) -> None:
    pod.start("seq 100")
    pod.end()
    assert logs.tail(pod.cluster, POD, "task", 3) == "98\n99\n100"
