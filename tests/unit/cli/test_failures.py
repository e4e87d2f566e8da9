from __future__ import annotations

import json
import socket

import pytest

from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.client.transport import Transport
from tests.unit.cli.conftest import Nemo
from tests.unit.cli.fake_server import Answer, FakeServer, detail
from tests.unit.cli.raw_server import dripped_head, endless, talking
from tests.unit.cli.shapes import JOBS, PLATFORM_SPEC, job

JOB = f"{JOBS}/pz-1"


@pytest.mark.parametrize(
    ("status", "first_line", "has_address"),
    [
        (400, "Bad request: (400) why", False),
        (401, "Authentication error: (401) why", False),
        (403, "Permission denied: (403) why", False),
        (404, "Not found: (404) why", True),
        (405, "API error: (405) why", True),
        (409, "Conflict: (409) why", False),
        (422, "Invalid input: (422) why", False),
        (429, "Rate limit exceeded: (429) why", False),
        (500, "Server error: (500) why", True),
        (503, "Server error: (503) why", True),
    ],
)
def test_answers_of_the_server(server: FakeServer, nemo: Nemo, status: int, first_line: str, has_address: bool) -> None:
    server.on("GET", JOB, detail(status, "why", x_should_retry="false"))
    result = nemo("jobs", "get", "pz-1")
    lines = result.err.splitlines()
    assert lines[0] == first_line
    address = [f"Request: GET {server.url}{JOB}", f"Target: jobs API route {JOB}"]
    assert (lines[1:3] == address) is has_address
    assert (result.code, result.out) == (3, "")


def test_404_says_where_to_look(server: FakeServer, nemo: Nemo) -> None:
    assert nemo("jobs", "get", "pz-1").err.splitlines()[-1] == (
        "Hint: Check the resource name/ID with nemo jobs list. A 404 can mean the resource does not exist, the "
        "workspace/base URL is wrong, or the endpoint is not deployed on this cluster. Verify "
        "base-url/workspace with nemo config view."
    )


def test_401_names_the_login(server: FakeServer, nemo: Nemo) -> None:
    server.on("GET", JOB, detail(401, "Invalid JWT"))
    assert nemo("jobs", "get", "pz-1").err.splitlines()[-1].startswith("Hint: Run nemo login, ")


def test_a_token_that_the_server_does_not_know_wants_a_new_login(
    server: FakeServer, nemo: Nemo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NHX_ACCESS_TOKEN", "t")
    server.on("GET", JOB, detail(403, "Invalid JWT token"))
    assert nemo("jobs", "get", "pz-1").err.splitlines()[-1] == (
        "Hint: The token from NHX_ACCESS_TOKEN is not of this server or has expired. Run nemo login again, or set "
        "NHX_ACCESS_TOKEN to a token of this server."
    )


@pytest.mark.parametrize(
    "text",
    [
        "/etc/nemo.yaml:3: jobs.executors[0]: unknown key 'profil'",
        "Error parsing NeMo Helix configuration file as YAML: /etc/nemo.yaml:3: found a tab",
        "Configuration file '/etc/nemo.yaml' does not exist. Correct the path.",
        "NeMo Helix configuration file is empty: '/etc/nemo.yaml'.",
    ],
)
def test_a_broken_configuration_is_the_administrators(server: FakeServer, nemo: Nemo, text: str) -> None:
    server.on("GET", JOB, detail(503, text, x_should_retry="false"))
    assert nemo("jobs", "get", "pz-1").err.splitlines()[-1] == (
        "Hint: The server's configuration is wrong, not your request. Its administrator has to correct this file."
    )


def test_503_in_the_servers_own_words_has_no_hint(server: FakeServer, nemo: Nemo) -> None:
    text = "Airflow's database was busy or away. Look whether it was done before you try again."
    server.on("GET", JOB, detail(503, text, x_should_retry="false"))
    assert nemo("jobs", "get", "pz-1").err.splitlines() == [
        f"Server error: (503) {text}",
        f"Request: GET {server.url}{JOB}",
        f"Target: jobs API route {JOB}",
    ]
    gateway = Answer(b"<html>no backend</html>", 503, {"x-should-retry": "false"}, content_type="text/html")
    for answer in (gateway, detail(500, text, x_should_retry="false")):
        server.on("GET", JOB, answer)
        assert nemo("jobs", "get", "pz-1").err.splitlines()[-1].startswith("Hint: The server failed, ")


def test_a_job_that_still_runs_is_cancelled_before_it_is_deleted(server: FakeServer, nemo: Nemo) -> None:
    server.on("DELETE", JOB, detail(409, "Cannot delete job 'pz-1' while it is 'active'.", x_should_retry="false"))
    assert nemo("jobs", "delete", "pz-1").err.splitlines()[-1] == (
        "Hint: Run nemo jobs cancel pz-1, wait until the job has ended, then delete it."
    )


def test_a_secret_that_is_not_there_is_no_name_that_is_taken(server: FakeServer, nemo: Nemo) -> None:
    text = "Unable to create job because one or more referenced secrets were not found or are not accessible."
    server.on("POST", JOBS, detail(409, text, x_should_retry="false"))
    body = '{"source": "s", "spec": {}, "platform_spec": {"steps": [{"name": "one", "executor": '
    body += '{"provider": "subprocess", "command": ["true"]}}]}}'
    hint = nemo("jobs", "create", "pz-1", "--input-data", body).err.splitlines()[-1]
    assert hint.startswith("Hint: Check each from_secret of the job.")


def test_a_job_that_the_server_refuses_has_no_hint_about_options(server: FakeServer, nemo: Nemo) -> None:
    server.on("POST", JOBS, detail(422, "No such profile 'x'."))
    body = '{"source": "s", "spec": {}, "platform_spec": {"steps": [{"name": "one", "executor": '
    body += '{"provider": "subprocess", "profile": "x", "command": ["true"]}}]}}'
    result = nemo("jobs", "create", "pz-1", "--input-data", body)
    assert result.err.splitlines()[-1] == "Hint: Correct this in the job and create it again."
    server.on("GET", JOB, detail(422, "why"))
    assert "--help" in nemo("jobs", "get", "pz-1").err


def test_an_unknown_profile_names_the_command_that_lists_them(server: FakeServer, nemo: Nemo) -> None:
    text = "The execution profile 'cpu/large' specified in step 'one' does not exist."
    server.on("POST", JOBS, detail(422, text))
    body = ("--source", "s", "--spec", "{}", "--platform-spec", json.dumps(PLATFORM_SPEC))
    result = nemo("jobs", "create", "pz-1", *body)
    assert result.err.splitlines() == [
        f"Invalid input: (422) {text}",
        "Hint: See nemo jobs list-execution-profiles. Correct this in the job and create it again.",
    ]


def test_https_to_a_server_without(server: FakeServer, nemo: Nemo) -> None:
    url = server.url.replace("http:", "https:")
    result = nemo("jobs", "list", base_url=url)
    assert result.err.splitlines()[-1] == (
        f"Hint: The server {url} (from --base-url) does not speak TLS. Is its address {server.url}?"
    )
    assert result.code == 3


def test_validation_errors_are_one_line(server: FakeServer, nemo: Nemo) -> None:
    problems = [
        {"loc": ["query", "page"], "msg": "too small", "type": "x"},
        {"loc": ["body"], "msg": "no", "type": "x"},
    ]
    server.on("GET", JOB, detail(422, problems))
    assert nemo("jobs", "get", "pz-1").err.splitlines()[0] == "Invalid input: (422) page: too small; no"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"<html>Sign in</html>", content_type="text/html"),
        Answer(b""),
        Answer([]),
        Answer({"detail": "odd"}),
        Answer(b'{"name": '),
    ],
)
def test_an_answer_of_something_else(server: FakeServer, nemo: Nemo, answer: Answer) -> None:
    server.on("GET", JOB, answer).on("GET", JOBS, answer)
    for arguments in (("get", "pz-1"), ("list",)):
        result = nemo("jobs", *arguments)
        assert result.err.startswith("API response error: ")
        assert f"{server.url} (from --base-url)" in result.err
        assert (result.code, result.out) == (3, "")


def test_nobody_there(nemo: Nemo) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    result = nemo("jobs", "get", "pz-1", base_url=url)
    lines = result.err.splitlines()
    assert lines[0] == "Connection error: [Errno 111] Connection refused"
    assert lines[-1].startswith(f"Hint: The base URL in use is {url} (from --base-url). ")
    assert "NHX_BASE_URL" in lines[-1]
    assert result.code == 3


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "http://[::1", "http://h:port"])
def test_no_url_at_all(nemo: Nemo, url: str) -> None:
    result = nemo("jobs", "list", base_url=url)
    assert result.err.startswith(f"Connection error: the base URL '{url}' is not ")
    assert result.code == 3


@pytest.mark.parametrize(
    "url",
    [
        "ftp://ann:s3cret@host",
        "ann:s3cret@host",
        "http://ann:s3cret@[::1",
        "http://ann:s3cret@host:port",
        "http://ann:s3cret/x@host",
        "http://ann:s3cret@",
        "https://ann:s3cret@127.0.0.1:1",
    ],
)
def test_a_password_in_a_url_is_not_shown(nemo: Nemo, url: str) -> None:
    result = nemo("jobs", "list", base_url=url)
    assert result.err.startswith("Connection error: ")
    assert "s3cret" not in result.err
    assert result.code == 3


def test_a_token_stays_off_cleartext(nemo: Nemo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NHX_ACCESS_TOKEN", "s3cret")
    result = nemo("jobs", "list", base_url="http://airflow.example:8080")
    assert result.err.splitlines()[0] == (
        "Unexpected error: JobsClient cannot send Authorization to cleartext remote endpoint "
        "'http://airflow.example:8080'; use https:// or loopback HTTP for local development"
    )
    assert "s3cret" not in result.err
    assert result.code == 1


def test_what_nobody_foresaw(nemo: Nemo, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(self: JobsClient, name: str) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(JobsClient, "get_job", explode)
    result = nemo("jobs", "get", "x")
    assert result.err == "Unexpected error: boom\nHint: Run with --verbose for more details.\n"
    assert result.code == 1
    assert "Traceback (most recent call last):" in nemo("--verbose", "jobs", "get", "x").err


@pytest.mark.parametrize(
    ("arguments", "first_line"),
    [
        (("jobs", "lst"), "Error: No such command 'lst'."),
        (("jobs", "get"), "Error: Missing argument 'NAME'."),
        (("jobs", "list", "--sort", "size"), "Error: Invalid value for '--sort': 'size' is not one of "),
        (("--timestamp-format", "x", "jobs", "list"), "Error: Invalid value for '--timestamp-format'"),
        (("jobs", "steps", "get", "s"), "Error: Missing option '--job'."),
    ],
)
def test_usage(nemo: Nemo, arguments: tuple[str, ...], first_line: str) -> None:
    result = nemo(*arguments)
    assert result.err.startswith(first_line)
    assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("login", "--base-url", "http://x"), "nemo --base-url URL login"),
        (("jobs", "list", "--base-url", "http://x"), "nemo --base-url URL jobs list"),
        (("jobs", "list", "--verbose"), "nemo --verbose jobs list"),
    ],
)
def test_a_global_option_after_the_command(nemo: Nemo, arguments: tuple[str, ...], hint: str) -> None:
    option = hint.split()[1]
    result = nemo(*arguments)
    assert result.err == (
        f"Error: No such option: {option}\nHint: {option} is a global option; it stands before the command: {hint}\n"
    )
    assert result.code == 2
    assert "global option" not in nemo("jobs", "list", "--bse-url", "x").err
    assert "global option" not in nemo("--lines", "x").err


def test_version_and_help(nemo: Nemo) -> None:
    version = nemo("--version", base_url=None)
    assert version.out.startswith("nemo 0.")
    assert version.code == 0
    assert nemo("--help", base_url=None).code == 0
    assert nemo("jobs", "create", "--help").code == 0


def test_a_terminal_is_not_steered(server: FakeServer, nemo: Nemo, on_terminal: Nemo) -> None:
    evil = "a\x1b]0;title\x07b\x1b[2Jc\x9b31md\u202ee\rf"
    server.on("GET", JOB, detail(404, evil))
    assert on_terminal("jobs", "get", "pz-1").err.startswith("\x1b[31mNot found: (404) abcd\ufffde\ufffdf\x1b[0m\n")
    assert evil in nemo("jobs", "get", "pz-1").err
    server.on("GET", JOB, Answer(job(description=evil)))
    for form in ("json", "yaml", "raw"):
        shown = on_terminal("jobs", "get", "pz-1", "-f", form).out
        assert not {"\x1b", "\x9b", "\x07", "\u202e", "\r"} & set(shown)


@pytest.mark.parametrize(
    ("arguments", "says_more"),
    [
        (("list",), False),
        (("tail", "pz-1"), False),
        (("create", "pz-1", "--source", "s", "--spec", "{}", "--platform-spec", json.dumps(PLATFORM_SPEC)), True),
    ],
)
def test_a_server_that_drips(
    nemo: Nemo, arguments: tuple[str, ...], says_more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Transport.__init__.__kwdefaults__, "timeout_seconds", 0.3)
    with talking(dripped_head) as server:
        result = nemo("jobs", *arguments, base_url=server.url)
        lines = result.err.splitlines()
        assert lines[0] == "Timeout error: the whole answer did not come within 0.3 seconds"
        assert lines[1].startswith(f"Request: {'POST' if says_more else 'GET'} {server.url}/apis/jobs/v2/")
        assert lines[-1].startswith(f"Hint: The server {server.url} (from --base-url) is very busy, hangs, or is no ")
        assert ("The job may have been created" in lines[-1]) == says_more
        assert (result.code, result.out, server.connections) == (3, "", 1)


def test_an_answer_without_end(nemo: Nemo) -> None:
    with talking(endless) as server:
        result = nemo("jobs", "list", base_url=server.url)
    assert result.err.startswith("API response error: the answer is larger than 64 MiB; ask for fewer rows or lines")
    assert result.code == 3
