"""The command line as a process of its own: what it imports, how it is interrupted, what a terminal sees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.unit.cli.fake_server import Answer, FakeServer, Seen
from tests.unit.cli.shapes import JOBS, PLATFORM_SPEC, job, line, logs, page, status
from tests.waiting import wait_until

NEMO = [sys.executable, "-m", "nemo_airflow_provider.cli.main"]


def start(server: FakeServer, *arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*NEMO, "--base-url", server.url, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background (`nohup … &`) ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,  # type: ignore[call-overload]
    )


def interrupted(server: FakeServer, method: str, path: str, answer: Answer, *arguments: str) -> tuple[str, str]:
    """What a command printed whose request hangs until Ctrl-C was answered; its exit code was seen to be right."""

    def hang(_seen: Seen) -> Answer:
        server.over.wait(60)
        return answer

    server.on(method, path, hang)
    process = start(server, "jobs", *arguments)
    wait_until(lambda: bool(server.seen))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=50)
    assert process.returncode == 130
    return out, err


def test_nothing_heavy_is_imported(server: FakeServer) -> None:
    server.on("GET", JOBS, Answer(page(job())))
    program = (
        "import sys\n"
        "from nemo_airflow_provider.cli.app import run\n"
        f"assert run(['--base-url', {server.url!r}, 'jobs', 'list', '-f', 'table']) == 0\n"
        "heavy = {'airflow', 'fastapi', 'sqlalchemy', 'starlette', 'yaml', 'jinja2'}\n"
        "ours = {'nemo_airflow_provider.model.spec', 'nemo_airflow_provider.settings'}\n"
        "print(sorted((heavy | ours) & set(sys.modules)), file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr.splitlines()[-1] == "[]"


def test_help_needs_no_http() -> None:
    program = (
        "import sys\n"
        "from nemo_airflow_provider.cli.app import run\n"
        "run(['jobs', 'list', '--help'])\n"
        "print(sorted({'httpx', 'ssl', 'airflow'} & set(sys.modules)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", [("watch", "pz-1"), ("tail", "pz-1", "-F")])
def test_ctrl_c_shows_no_traceback(server: FakeServer, command: tuple[str, ...]) -> None:
    server.on("GET", f"{JOBS}/pz-1/status", Answer(status(status="active")))
    server.on("GET", f"{JOBS}/pz-1/logs", Answer(logs(line("hi"))))
    process = start(server, "jobs", *command)
    wait_until(lambda: len(server.seen) >= 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_ctrl_c_while_a_request_hangs_is_answered(server: FakeServer) -> None:
    """The server gives no answer before Ctrl-C has one."""
    answer = Answer(status(status="active"))
    _, err = interrupted(server, "GET", f"{JOBS}/pz-1/status", answer, "watch", "pz-1")
    assert err.startswith("Interrupted watching; no status received. Exiting.\nThe job goes on.")


def test_ctrl_c_while_a_job_is_created_says_what_may_have_become_of_it(server: FakeServer) -> None:
    body = json.dumps({"source": "probe", "spec": {}, "platform_spec": PLATFORM_SPEC})
    _, err = interrupted(server, "POST", JOBS, Answer(job(), 201), "create", "--watch", "--input-data", body)
    assert err.startswith("Interrupted. The job may have been created: look with nemo jobs list")


def test_ctrl_c_is_never_silent_where_no_command_answers_it(server: FakeServer) -> None:
    assert interrupted(server, "GET", JOBS, Answer(page()), "list") == ("", "Interrupted.\n")


def test_a_reader_that_leaves(server: FakeServer) -> None:
    server.on("GET", f"{JOBS}/pz-1/logs", Answer(logs(*(line("x" * 1000) for _ in range(1000)))))
    process = start(server, "jobs", "tail", "pz-1")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("arguments", [("jobs", "create", "--help"), ("--version",)])
def test_a_reader_that_is_gone_before_the_first_line(server: FakeServer, arguments: tuple[str, ...]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    ended = subprocess.run(
        [*NEMO, "--base-url", server.url, *arguments], stdout=writes, stderr=subprocess.PIPE, check=False
    )
    os.close(writes)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_plain_locale_loses_no_line(server: FakeServer) -> None:
    server.on("GET", f"{JOBS}/pz-1/logs", Answer(logs(line("naïve \ud800"))))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    process = start(server, "jobs", "tail", "pz-1", env=environment)
    out, err = process.communicate(timeout=60)
    assert out.endswith("| na\\xefve \\ud800\n")
    assert (err, process.returncode) == ("", 0)


def test_log_lines_on_a_real_terminal(server: FakeServer) -> None:
    server.on("GET", f"{JOBS}/pz-1/logs", Answer(logs(line("\x1b[31mred\x1b[0m\x07"), line("one\n[00:00:00] two"))))
    controller, terminal = os.openpty()
    process = subprocess.Popen(
        [*NEMO, "--base-url", server.url, "jobs", "tail", "pz-1"], stdout=terminal, stderr=subprocess.PIPE
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(controller, 4096)
        except OSError:  # Linux says EIO when the other side has closed
            break
        if not piece:
            break
        shown += piece
    os.close(controller)
    process.communicate(timeout=60)
    lines = shown.decode().replace("\r\n", "\n").splitlines()
    assert [text.split(" | ")[1] for text in lines] == ["red\ufffd", "one [00:00:00] two"]
