"""Reading a container's output from an API that breaks off, refuses, or says nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from nemo_airflow_provider.backends.base import Chunk
from nemo_airflow_provider.backends.kube import answers, logs
from nemo_airflow_provider.backends.kube.access import Access
from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.backends.kube.lines import Piece, Position
from nemo_airflow_provider.backends.kube.resume import MARKER
from nemo_airflow_provider.errors import OutputLost
from tests.unit.backends.kube.test_lines import BASE, at, output
from tests.waiting import wait_until

SECONDS = 60.0
POD = "nemo-pod"
LOG = [Piece(at(number * 4), b"%d\n" % number) for number in range(10)]
TEXT = b"".join(piece.data for piece in LOG)
TAIL = [*LOG, Piece(at(40), b"no end")]
GONE = b"unable to retrieve container logs for containerd://1"


class Question(BaseHTTPRequestHandler):
    """What the API was asked, and how it answers."""

    protocol_version = "HTTP/1.1"

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}

    @property
    def follows(self) -> bool:
        return "follow" in self.query

    def begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    def end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def give(self, data: bytes) -> None:
        self.begin()
        self.send(data)
        self.end()

    def give_log(self, entries: list[Piece], most_bytes: int | None = None) -> None:
        """As a kubelet does from the second that is asked for."""
        since = self.query.get("sinceTime")
        second = int(time.strftime("%s", time.strptime(since, "%Y-%m-%dT%H:%M:%SZ"))) - time.timezone if since else 0
        self.give(output(entries, second)[:most_bytes])

    def cut_off(self) -> None:
        self.close_connection = True

    def refuse(self, status: int, words: str, reason: str = "") -> None:
        body = json.dumps({"kind": "Status", "message": words, "reason": reason}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


Api = Callable[[Callable[[Question], None]], Cluster]


@pytest.fixture
def api() -> Iterator[Api]:
    """Starts an API, and gives the way to it."""
    from kubernetes.client import Configuration

    servers = []

    def start(answer: Callable[[Question], None]) -> Cluster:
        class Handler(Question):
            def do_GET(self) -> None:
                assert urlsplit(self.path).path == f"/api/v1/namespaces/here/pods/{POD}/log"
                answer(self)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        configuration = Configuration(host=f"http://127.0.0.1:{server.server_port}")
        return Cluster(lambda: Access(configuration), "here")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (logs, answers):
        monkeypatch.setattr(module, "SIGN_OF_LIFE_SECONDS", 0.01)
    monkeypatch.setattr(logs, "_RETRY_SECONDS", 0.001)


def over(*looks: bool) -> Callable[[], bool]:
    """Says these, and then that it is over."""
    left = iter(looks)
    return lambda: next(left, True)


def read(cluster: Cluster, is_over: Callable[[], bool], position: Any = None) -> list[Chunk]:
    found = logs.read(cluster, POD, "task", "t", position, threading.Event(), is_over)
    return [chunk for chunk in found if chunk is not None]


def text(chunks: list[Chunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


def test_what_is_asked_for_and_what_is_told(api: Api) -> None:
    asked: list[dict[str, str]] = []

    def answer(question: Question) -> None:
        asked.append(question.query)
        question.give_log(LOG)

    found = read(api(answer), over(False))
    assert text(found) == TEXT
    assert {(chunk.task, chunk.stream) for chunk in found} == {("t", "stdout")}
    assert [chunk.micros for chunk in found] == [piece.nanos // 1000 for piece in LOG]
    assert [chunk.start for chunk in found] == [Position().dump(), *(chunk.end for chunk in found[:-1])]
    assert asked[0] == {"container": "task", "timestamps": "true", "follow": "true"}
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BASE + 36 - 10))
    assert asked[1] == {"container": "task", "timestamps": "true", "sinceTime": since}
    assert len(asked) == 2


def test_what_was_followed_to_its_end_is_read_to_the_end_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(question: Question) -> None:
        if question.follows:
            time.sleep(0.3)
        ended.set()
        question.give_log(LOG)

    monkeypatch.setattr(logs, "_RETRY_SECONDS", 0.2)
    waits: list[float] = []
    ended = threading.Event()
    found = list(logs.read(api(answer), POD, "task", "t", None, threading.Event(), ended.is_set, waits.append))
    assert text([chunk for chunk in found if chunk is not None]) == TEXT
    assert waits == [0.0]


@pytest.mark.parametrize("looks", [[], [False]])
def test_a_reader_goes_on_from_any_position(api: Api, looks: list[bool]) -> None:
    cluster = api(lambda question: question.give_log(TAIL))
    whole = read(cluster, over())
    assert text(whole) == TEXT + b"no end"
    for number, chunk in enumerate(whole):
        assert read(cluster, over(*looks), chunk.start) == whole[number:]
        assert read(cluster, over(*looks), json.loads(json.dumps(chunk.end))) == whole[number + 1 :]


@pytest.mark.parametrize("ends", ["in good order", "cut off"])
@pytest.mark.parametrize("is_over", [False, True])
def test_an_answer_that_breaks_off_anywhere(api: Api, ends: str, is_over: bool) -> None:
    """The API ends its own answer in good order even where the kubelet's was cut off."""
    lengths = iter(range(1, 400, 7))

    def answer(question: Question) -> None:
        length = next(lengths, None)
        if length is None or (question.follows != (not is_over)):
            question.give_log(TAIL)
        elif ends == "cut off":
            question.begin()
            question.send(output(LOG)[:length])
            question.cut_off()
        else:
            question.give_log(TAIL, length)

    if is_over and ends == "in good order":
        # Two answers without a word more than is known are all there is, so each must bring one.
        lengths = iter([40, 80, 120])
    looks = [] if is_over else [False] * 70
    assert text(read(api(answer), over(*looks))) == TEXT + b"no end"


def test_a_container_that_has_not_started_is_waited_for(api: Api) -> None:
    words = iter(
        [
            (400, f'container "task" in pod "{POD}" is waiting to start: ContainerCreating'),
            (400, f'container "task" in pod "{POD}" is waiting to start: PodInitializing'),
            (500, "dial tcp 10.0.0.1:10250: connect: connection refused"),
            (404, "the server could not find the requested resource ( pods/log nemo-pod)"),
        ]
    )

    def answer(question: Question) -> None:
        refusal = next(words, None)
        if refusal:
            question.refuse(*refusal)
        else:
            question.give_log(LOG)

    assert text(read(api(answer), over(*[False] * 5))) == TEXT


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, f'container "task" in pod "{POD}" is waiting to start: PodInitializing'),
        (400, f'container "task" in pod "{POD}" is not available'),
        (400, f'container "task" in pod "{POD}" is terminated'),
    ],
)
def test_a_container_that_never_ran_has_no_output(api: Api, status: int, words: str) -> None:
    assert read(api(lambda question: question.refuse(status, words)), over(False)) == []


def test_a_pod_that_was_removed_before_anybody_read(api: Api) -> None:
    with pytest.raises(OutputLost, match="was removed before all of its output was read"):
        read(api(lambda question: question.refuse(404, f'pods "{POD}" not found')), over(False))


@pytest.mark.parametrize("removed", ["pod", "container", "container, while it is followed"])
def test_a_pod_that_is_removed_as_soon_as_it_ends(api: Api, removed: str) -> None:
    """What was followed to its end is all there is, with its last words."""
    asked = iter(range(100))

    def answer(question: Question) -> None:
        if next(asked) == 0:
            words = b"rpc error: code = NotFound desc = an error occurred" if "while" in removed else b""
            question.give(output(LOG if words else TAIL) + words)
        elif removed == "pod":
            question.refuse(404, f'pods "{POD}" not found')
        else:
            question.give(GONE)

    expected = TEXT if "while" in removed else TEXT + b"no end"
    assert text(read(api(answer), over(False, False, True))) == expected


@pytest.mark.parametrize("refusal", ["status", "words", "removed"])
def test_output_that_is_never_handed_out(api: Api, monkeypatch: pytest.MonkeyPatch, refusal: str) -> None:
    monkeypatch.setattr(logs, "_REFUSED_SECONDS", 0.05)

    def answer(question: Question) -> None:
        if refusal == "status":
            question.refuse(403, "pods/log is forbidden")
        elif refusal == "removed":
            question.give(GONE)
        else:
            question.give(output(LOG[:1]) + b"failed to read log file")

    expected = {"status": "is forbidden", "removed": "unable to retrieve", "words": "failed to read"}[refusal]
    with pytest.raises(OutputLost, match=expected):
        read(api(answer), over(*[False] * 5))


def test_an_api_that_refuses_for_a_while(api: Api) -> None:
    refusals = iter(range(20))

    def answer(question: Question) -> None:
        if next(refusals, None) is None:
            question.give_log(LOG)
        else:
            question.refuse(502, "error dialing backend")

    assert text(read(api(answer), over())) == TEXT


def test_a_connection_that_died_in_silence(api: Api) -> None:
    """A network that drops what it had let through: the rest is asked for once the container is over."""
    done = threading.Event()

    def answer(question: Question) -> None:
        if not question.follows:
            question.give_log(LOG)
            return
        question.begin()
        question.send(output(LOG[:3]))
        done.wait(SECONDS)

    assert text(read(api(answer), over(False, False))) == TEXT
    # Nobody waits on the dead connection any more, though the API has not closed it.
    wait_until(lambda: not [each for each in threading.enumerate() if each.name == "nemo-pod-logs"], SECONDS)
    done.set()


def test_signs_of_life_while_nothing_comes_until_it_is_told_to_stop(api: Api) -> None:
    done, stop = threading.Event(), threading.Event()

    def answer(question: Question) -> None:
        question.begin()
        question.send(output(LOG[:1]) + b"2026")
        done.wait(SECONDS)

    reader = logs.read(api(answer), POD, "task", "t", None, stop, lambda: False)
    first = next(chunk for chunk in reader if chunk)
    assert first.data == b"0\n"
    assert [next(reader) for _ in range(30)] == [None] * 30
    stop.set()
    assert list(reader) == [None]
    done.set()


def test_a_log_that_was_rotated_away_is_told_once(api: Api) -> None:
    cluster = api(lambda question: question.give_log(LOG[5:]))
    known = Position(BASE, 3, at(4), at(12), 1, at(12)).dump()
    whole = read(cluster, over(False), known)
    assert text(whole) == MARKER + b"".join(piece.data for piece in LOG[5:])
    for number, chunk in enumerate(whole):
        assert read(cluster, over(), chunk.start) == whole[number:]
        assert read(cluster, over(), chunk.end) == whole[number + 1 :]


def test_the_last_words(api: Api) -> None:
    asked: list[dict[str, str]] = []

    def answer(question: Question) -> None:
        asked.append(question.query)
        question.give(b"x" * 200_000 + b"\xff\nlast\n")

    found = logs.tail(api(answer), POD, "init", 20)
    assert found == ("x" * 65_529 + "\ufffd\nlast")
    assert asked == [{"container": "init", "tailLines": "20"}]


@pytest.mark.parametrize("status", [400, 404, 500])
def test_last_words_that_cannot_be_had(api: Api, status: int) -> None:
    assert logs.tail(api(lambda question: question.refuse(status, "no")), POD, "init", 20) == ""
