"""What is asked of an API and what becomes of its answers, over a real connection to a server that plays it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes.client import Configuration  # noqa: TID253 - no test without it

from nemo_airflow_provider.backends.kube.access import Access, Refused
from nemo_airflow_provider.backends.kube.cluster import Cluster
from nemo_airflow_provider.errors import BackendError


@dataclass
class Api:
    """Answers of the API by method and path, and what was asked."""

    port: int = 0
    answers: dict[tuple[str, str], Callable[[dict[str, list[str]]], tuple[int, Any]]] = field(default_factory=dict)
    #: What the last question showed.
    authorization: str | None = None
    asked: list[tuple[str, str, dict[str, list[str]], Any, str | None]] = field(default_factory=list)

    def access(self) -> Access:
        configuration = Configuration()
        configuration.host, configuration.proxy = f"http://127.0.0.1:{self.port}", None
        return Access(configuration, connection="lab")

    def cluster(self) -> Cluster:
        return Cluster(self.access, "nemo")

    def says(self, method: str, path: str, *answers: tuple[int, Any]) -> None:
        """These one after the other; the last goes on."""
        left = list(answers)
        self.answers[method, path] = lambda _: left.pop(0) if len(left) > 1 else left[0]


def status(code: int, reason: str, message: str) -> tuple[int, Any]:
    return code, {"kind": "Status", "reason": reason, "message": message, "code": code}


@pytest.fixture
def api() -> Iterator[Api]:
    found = Api()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = json.loads(body) if body else None
            found.authorization = self.headers.get("Authorization")
            found.asked.append((self.command, parts.path, query, given, self.headers.get("Content-Type")))
            code, answer = found.answers[self.command, parts.path](query)
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *arguments: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


PODS, JOBS = "/api/v1/namespaces/nemo/pods", "/apis/batch/v1/namespaces/nemo/jobs"


def test_an_object_is_there_or_not(api: Api) -> None:
    api.says("GET", f"{JOBS}/here", (200, {"metadata": {"name": "here"}}))
    api.says("GET", f"{JOBS}/gone", status(404, "NotFound", 'jobs.batch "gone" not found'))
    cluster = api.cluster()
    assert cluster.get("jobs", "here") == {"metadata": {"name": "here"}}
    assert cluster.get("jobs", "gone") is None


def test_an_object_is_made_strictly_and_once(api: Api) -> None:
    api.says("POST", JOBS, (201, {"made": True}), status(409, "AlreadyExists", "jobs.batch already exists"))
    cluster = api.cluster()
    assert cluster.create("jobs", {"kind": "Job"}) == {"made": True}
    assert cluster.create("jobs", {"kind": "Job"}) is None
    _, _, query, body, _ = api.asked[0]
    assert (query, body) == ({"fieldValidation": ["Strict"]}, {"kind": "Job"})


def test_a_refusal_has_the_apis_words(api: Api) -> None:
    api.says("POST", JOBS, status(422, "Invalid", "Job.batch is invalid:\n spec.x: too long"))
    with pytest.raises(Refused) as told:
        api.cluster().create("jobs", {})
    assert (told.value.status, told.value.reason) == (422, "Invalid")
    assert told.value.words == "Job.batch is invalid: spec.x: too long"
    assert str(told.value) == (
        f"The Kubernetes API at http://127.0.0.1:{api.port} refuses: Job.batch is invalid: spec.x: too long"
    )


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"", b'{"kind": "other"}', b"[]"])
def test_an_answer_of_something_in_between(api: Api, body: bytes) -> None:
    api.says("GET", f"{JOBS}/x", (502, body))
    with pytest.raises(Refused, match="refuses: Bad Gateway") as told:
        api.cluster().get("jobs", "x")
    assert told.value.status == 502


def test_who_is_not_known_is_told_where_to_look(api: Api) -> None:
    api.says("GET", f"{JOBS}/x", status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(Refused, match=r"does not know us \(401 Unauthorized\). See the Airflow connection 'lab'."):
        api.cluster().get("jobs", "x")


class Credential:
    """What a server takes at the moment, and who reads it anew."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.taken, self.reads = "first", 0
        self.given = "first"
        api.answers["GET", "/version"] = lambda _: (200, {}) if self._shown() else status(401, "Unauthorized", "who?")

    def _shown(self) -> bool:
        return self._api.authorization == f"Bearer {self.taken}"

    def configuration(self) -> Configuration:
        self.reads += 1
        made = Configuration()
        made.host, made.proxy = f"http://127.0.0.1:{self._api.port}", None
        made.api_key["BearerToken"] = f"Bearer {self.given}"
        return made


def test_what_is_shown_is_read_anew_where_it_is_not_known_any_more(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    credential = Credential(api)
    access = Access(credential.configuration(), renew=credential.configuration)
    access.ask("GET", "/version")
    credential.taken = credential.given = "second"
    access.ask("GET", "/version")
    assert credential.reads == 2
    # One that stays unknown is told, and not read with each question.
    credential.taken = "third"
    for _ in range(3):
        with pytest.raises(Refused, match="does not know us"):
            access.ask("GET", "/version")
    assert credential.reads == 2
    monkeypatch.setattr("nemo_airflow_provider.backends.kube.caller._RENEWAL_SECONDS", 0.0)
    credential.given = "third"
    access.ask("GET", "/version")


@pytest.mark.parametrize("spoiled", ["host", "nothing"])
def test_another_cluster_or_nobody_is_not_what_was_meant(api: Api, spoiled: str) -> None:
    credential = Credential(api)

    def other() -> Configuration:
        made = credential.configuration()
        if spoiled == "host":
            made.host = "http://127.0.0.1:1"
        else:
            made.api_key.clear()
        return made

    access = Access(credential.configuration(), renew=other)
    credential.taken = "second"
    with pytest.raises(Refused, match="does not know us"):
        access.ask("GET", "/version")


def test_a_thread_that_leaves_it_to_another_keeps_that_one_from_nothing(api: Api) -> None:
    credential = Credential(api)
    answers = [None, credential.configuration()]
    access = Access(credential.configuration(), renew=lambda: answers.pop(0))
    credential.taken = "second"
    with pytest.raises(Refused, match="does not know us"):
        access.ask("GET", "/version")
    credential.taken = "first"
    access.ask("GET", "/version")
    credential.taken = "third"
    with pytest.raises(Refused):
        access.ask("GET", "/version")
    assert answers == []


def test_what_cannot_be_read_anew_leaves_the_refusal(api: Api) -> None:
    credential = Credential(api)

    def gone() -> Configuration:
        raise BackendError("no such file")

    access = Access(credential.configuration(), renew=gone)
    credential.taken = "second"
    with pytest.raises(Refused, match="does not know us"):
        access.ask("GET", "/version")


def test_an_answer_that_is_no_json(api: Api) -> None:
    api.says("GET", f"{JOBS}/x", (200, b"welcome"))
    with pytest.raises(BackendError, match="does not answer as a Kubernetes API does"):
        api.cluster().get("jobs", "x")


def test_an_api_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(BackendError) as told:
            Api(port).cluster().get("jobs", "x")
    assert str(told.value) == (
        f"No answer from the Kubernetes API at http://127.0.0.1:{port}: connection refused. See the Airflow "
        "connection 'lab'."
    )
    assert caplog.messages == [], "each question would add a line to the task's log"


def test_an_api_that_breaks_off(api: Api) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def hang_up() -> None:
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        connection.close()

    thread = threading.Thread(target=hang_up, daemon=True)
    thread.start()
    with pytest.raises(BackendError, match="No answer from the Kubernetes API"):
        Api(listener.getsockname()[1]).cluster().get("jobs", "x")
    thread.join(60)
    listener.close()


def test_a_password_in_the_address_is_not_shown() -> None:
    configuration = Configuration()
    configuration.host = "https://ann:secret@cluster:6443"
    access = Access(configuration)
    assert access.shown_url == "https://***@cluster:6443"
    assert "secret" not in repr(access)


def test_a_list_is_asked_for_page_by_page(api: Api) -> None:
    def page(query: dict[str, list[str]]) -> tuple[int, Any]:
        if "continue" not in query:
            return 200, {"items": [1, 2], "metadata": {"continue": "more"}}
        return 200, {"items": [3], "metadata": {}}

    api.answers["GET", PODS] = page
    assert api.cluster().list("pods", {"nhx.nvidia.com/job_step_name": "a@b", "x": "y"}) == [1, 2, 3]
    assert [query.get("continue") for _, _, query, _, _ in api.asked] == [None, ["more"]]
    assert api.asked[0][2]["labelSelector"] == ["nhx.nvidia.com/job_step_name=aAb,x=y"]


def test_a_list_whose_pages_have_expired_begins_anew(api: Api) -> None:
    first = (200, {"items": [1], "metadata": {"continue": "more"}})
    api.says("GET", PODS, first, status(410, "Expired", "too old"), first, (200, {"items": [2], "metadata": {}}))
    assert api.cluster().list("pods") == [1, 2]


def test_a_removal_is_of_one_object(api: Api) -> None:
    cluster = api.cluster()
    api.says("DELETE", f"{PODS}/p", (200, {}), status(404, "NotFound", "gone"), status(409, "Conflict", "other uid"))
    answers = [cluster.delete("pods", "p", uid="u", grace_seconds=1) for _ in range(3)]
    assert answers == [True, True, False]
    assert api.asked[0][3] == {
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 1,
    }
    with pytest.raises(Refused):
        cluster.delete("pods", "p")


def test_a_patch_is_a_merge(api: Api) -> None:
    api.says("PATCH", f"{JOBS}/x", (200, {"spec": {"suspend": True}}), status(404, "NotFound", "gone"))
    cluster = api.cluster()
    assert cluster.patch("jobs", "x", {"spec": {"suspend": True}}) == {"spec": {"suspend": True}}
    assert cluster.patch("jobs", "x", {}) is None
    assert api.asked[0][4] == "application/merge-patch+json"


def test_a_cluster_is_known_by_the_uid_of_its_namespace(api: Api) -> None:
    api.says("GET", "/api/v1/namespaces/nemo", (200, {"metadata": {"uid": "1-2"}}))
    cluster = api.cluster()
    assert [cluster.identity(), cluster.identity()] == ["nemo/1-2"] * 2
    assert len(api.asked) == 1


def test_which_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = Configuration()
    connection = Access(configuration, namespace="of-connection")
    bare = Access(configuration)
    monkeypatch.setenv("POD_NAMESPACE", "of-pod")
    assert Cluster(lambda: connection, "of-profile").namespace == "of-profile"
    assert Cluster(lambda: connection).namespace == "of-connection"
    assert Cluster(lambda: bare).namespace == "of-pod"
    monkeypatch.delenv("POD_NAMESPACE")
    with pytest.raises(BackendError) as told:
        _ = Cluster(lambda: bare).namespace
    assert str(told.value).startswith(
        "Unable to determine current namespace, POD_NAMESPACE environment variable not set."
    )


def test_an_api_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not by a line of urllib3 in the task's log for each question too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(BackendError, match="connection refused"):
        Api(port).access().ask("GET", "/version")
    assert caplog.messages == []
