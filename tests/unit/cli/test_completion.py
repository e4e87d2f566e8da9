"""Completion as bash, zsh and fish ask for it; most of it in this process, since each start takes a while."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nemo_airflow_provider.cli.app import run
from tests.shells import NEMO, PATIENT, Bash, answer, asked, offers, put_on_path
from tests.unit.cli.fake_server import Answer, FakeServer, Seen, detail
from tests.unit.cli.shapes import JOBS, job, page, status

STEPS = [
    {"name": "load", "status": "completed", "tasks": [{"name": "task-a", "status": "completed"}]},
    {"name": "train", "status": "active", "tasks": [{"name": "task-b", "status": "active"}]},
]


@pytest.fixture
def jobs(server: FakeServer) -> FakeServer:
    """Three jobs, newest first, in each workspace's list; the steps are those of `old`."""

    def listed(seen: Seen) -> Answer:
        asked = json.loads(seen.query.get("filter", ["{}"])[0])
        prefix = asked.get("name", {}).get("$startsWith", "")
        rows = (job("train-2", "active"), job("old", "error"), job("train-1"))
        return Answer(page(*(row for row in rows if row["name"].startswith(prefix))))

    server.on("GET", JOBS, listed)
    return server.on("GET", f"{JOBS}/old/status", Answer(status("old", "active", steps=STEPS)))


Ask = Callable[..., str]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """What a shell is told. Nothing else may be said, and nothing may be wrong."""

    def ask(line: str, shell: str = "fish", **environ: str) -> str:
        capsys.readouterr()
        with monkeypatch.context() as patch:
            for name, value in {**PATIENT, **environ, **asked(shell, line)}.items():
                patch.setenv(name, value)
            try:
                code: object = run([])
            except SystemExit as ended:
                code = ended.code
        said = capsys.readouterr()
        assert (code, said.err) == (0, "")
        return said.out

    return ask


At = Callable[[str], list[str]]


@pytest.fixture
def at(ask: Ask, server: FakeServer) -> At:
    """The values that are offered with `server` as the server."""
    return lambda line: list(offers(ask(f"nemo --base-url {server.url} {line}")))


@pytest.mark.parametrize(
    "line",
    [
        "jobs get ",
        "jobs get-status -f json ",
        "jobs get-logs --tail 3 ",
        "jobs tail -n 3 ",
        "jobs watch ",
        "jobs steps list ",
        "jobs steps get load --job ",
        "jobs tasks list load --job ",
        "jobs tasks get --step load --job ",
        "jobs steps list - --filter.job ",
        "jobs list --filter.name ",
    ],
)
def test_every_place_of_a_job_offers_jobs_newest_first(jobs: FakeServer, at: At, line: str) -> None:
    assert at(line) == ["train-2", "old", "train-1"]
    (seen,) = jobs.seen
    assert seen.query == {"page_size": ["50"], "sort": ["-created_at"]}


def test_the_server_looks_for_what_is_typed(jobs: FakeServer, at: At) -> None:
    assert at("jobs get tra") == ["train-2", "train-1"]
    assert json.loads(jobs.seen[0].query["filter"][0]) == {"name": {"$startsWith": "tra"}}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_server_that_does_not_look_at_the_prefix(ask: Ask, server: FakeServer, shell: str) -> None:
    server.on("GET", JOBS, Answer(page(job("train-1"), job("Training"), job("other"))))
    said = ask(f"nemo --base-url {server.url} jobs get train", shell)
    assert "train-1" in said
    assert "other" not in said
    assert "Training" not in said


def test_what_is_said_about_a_job(ask: Ask, server: FakeServer) -> None:
    created = (datetime.now(UTC) - timedelta(hours=3, minutes=5)).isoformat()
    rows = (job("a1", "active", created_at=created), job("b1", "no such", created_at=17), job("c1", created_at="soon"))
    server.on("GET", JOBS, Answer(page(*rows)))
    said = offers(ask(f"nemo --base-url {server.url} jobs get "))
    assert said == {"a1": "active, 3h ago", "b1": "", "c1": "completed"}


@pytest.mark.parametrize(
    ("command", "fitting"), [("cancel", ["train-2"]), ("delete", ["old", "train-1"]), ("get", ["train-2", "old"])]
)
def test_only_jobs_that_the_command_is_for(jobs: FakeServer, at: At, command: str, fitting: list[str]) -> None:
    assert at(f"jobs {command} ")[: len(fitting)] == fitting
    assert len(jobs.seen) == 1


@pytest.mark.parametrize(
    ("command", "fitting"), [("cancel", ["on", "off"]), ("pause", ["on"]), ("resume", ["off"]), ("delete", [])]
)
def test_paused_jobs_and_others(server: FakeServer, at: At, command: str, fitting: list[str]) -> None:
    server.on("GET", JOBS, Answer(page(job("on", "active"), job("off", "paused"))))
    assert at(f"jobs {command} ") == fitting


def test_a_live_job_behind_a_page_of_ended_ones(server: FakeServer, at: At) -> None:
    ended = page(*(job(f"ended-{number}") for number in range(50)), pages=2)
    server.on("GET", JOBS, Answer(ended), Answer(page(job("old", "paused"))))
    assert at("jobs cancel ") == ["old"]
    statuses = json.loads(server.seen[1].query["filter"][0])["status"]
    assert statuses == ["active", "created", "paused", "pausing", "pending", "resuming"]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("jobs get-logs old --step-id ", ["load", "train"]),
        ("jobs tail --step-id t", []),
        ("jobs watch old --step-id t", ["train"]),
        ("jobs steps get --job old ", ["load", "train"]),
        ("jobs steps get ", []),
        ("jobs tasks list --job old l", ["load"]),
        ("jobs tasks get --job old --step ", ["load", "train"]),
        ("jobs tasks get --job old --step train ", ["task-b"]),
        ("jobs get-logs old --task-id ", ["task-a", "task-b"]),
        ("jobs get-logs old --step-id load --task-id ", ["task-a"]),
    ],
)
def test_steps_and_tasks_of_the_job_on_the_line(jobs: FakeServer, at: At, line: str, wanted: list[str]) -> None:
    assert at(line) == wanted


def test_what_is_said_about_a_step(ask: Ask, jobs: FakeServer) -> None:
    assert offers(ask(f"nemo --base-url {jobs.url} jobs tail old --step-id t")) == {"train": "active"}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("--context ", ["near", "far"]),
        ("-c f", ["far"]),
        ("jobs get x --workspace ", ["default", "research"]),
        ("jobs list --filter.workspace r", ["research"]),
        ("jobs list -f ", ["table", "json", "yaml", "markdown", "csv", "raw", "code"]),
        ("jobs get x -f ", ["json", "yaml", "raw", "code"]),
        ("--timestamp-format ", ["iso8601", "relative"]),
        ("jobs list --filter.status c", ["created", "completed", "cancelling", "cancelled"]),
        ("jobs tail x --attempt-id ", ["current"]),
        ("jobs list --output-columns ", ["default", "all"]),
        ("jobs st", ["steps"]),
        ("jobs tail --fo", ["--follow"]),
    ],
)
def test_what_is_known_here(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, wanted: list[str]
) -> None:
    contexts = (
        "contexts: [{name: near, workspace: default}, {name: far, workspace: research}, {name: '$(x)', workspace: 1}]"
    )
    (tmp_path / "contexts.yaml").write_text(contexts)
    monkeypatch.setenv("NHX_CONFIG_FILE", str(tmp_path / "contexts.yaml"))
    assert list(offers(ask(f"nemo {line}"))) == wanted


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_options_on_the_line_decide_whom_to_ask(ask: Ask, server: FakeServer, shell: str) -> None:
    research = "/apis/jobs/v2/workspaces/research/jobs"
    server.on("GET", research, Answer(page(job("there"))))
    line = f"nemo --base-url {server.url} --access-token abc jobs get --workspace research t"
    assert "there" in ask(line, shell, NHX_BASE_URL="http://127.0.0.1:1")
    (seen,) = server.seen
    assert seen.headers["authorization"] == "Bearer abc"


def test_the_context_on_the_line(ask: Ask, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "contexts.yaml"
    file.write_text(
        f"clusters: [{{name: c, base_url: '{server.url}'}}]\n"
        "users: [{name: u, type: oauth, token: stored}]\n"
        "contexts: [{name: far, cluster: c, user: u, workspace: research}]\n"
    )
    monkeypatch.setenv("NHX_CONFIG_FILE", str(file))
    server.on("GET", "/apis/jobs/v2/workspaces/research/jobs", Answer(page(job("there"))))
    assert list(offers(ask("nemo --context far jobs get "))) == ["there"]
    assert server.seen[0].headers["authorization"] == "Bearer stored"
    assert list(offers(ask("nemo --context no-such jobs get "))) == []
    file.write_text(file.read_text().replace("token: stored", "token: stored, expires_at: 1"))
    assert list(offers(ask("nemo --context far jobs get "))) == []
    assert len(server.seen) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    "script",
    [
        detail(401, "Not authenticated"),
        detail(429, "Later", retry_after="1"),
        detail(500, "Broken", x_should_retry="true"),
        Answer(hang_up=True),
        Answer(b"<html>", content_type="text/html"),
        Answer({"data": 17}),
        Answer({"data": [17, None, {"name": {"a": 1}}]}),
    ],
    ids=["401", "429", "500", "hang-up", "html", "outline", "rows"],
)
def test_no_failure_is_heard_of(ask: Ask, server: FakeServer, shell: str, script: Answer) -> None:
    server.on("GET", JOBS, script)
    said = ask(f"nemo --base-url {server.url} jobs get ", shell)
    assert said.strip() == ("_files" if shell == "zsh" else "")
    assert len(server.seen) == 1


def test_a_server_that_never_answers(server: FakeServer) -> None:
    def never(seen: Seen) -> Answer:
        server.over.wait()
        return Answer(hang_up=True)

    server.on("GET", JOBS, never)
    ended = answer("bash", f"nemo --base-url {server.url} jobs get ", {"NEMO_COMPLETION_SECONDS": "nonsense"})
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "", "")


@pytest.mark.parametrize("line", ["jobs get ", "jobs no-such x", "jobs tail -n x -n ", "jobs get 'a"])
def test_no_server_and_no_sense(ask: Ask, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "contexts.yaml").write_text("contexts: {")
    monkeypatch.setenv("NHX_CONFIG_FILE", str(tmp_path / "contexts.yaml"))
    for shell in ("bash", "fish"):
        assert ask(f"nemo --base-url http://127.0.0.1:1 {line}", shell).strip() == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_options_that_do_something_do_nothing(ask: Ask, jobs: FakeServer, shell: str) -> None:
    said = ask(f"nemo --version --help --base-url {jobs.url} jobs get o", shell)
    assert "old" in said
    assert "nemo" not in said


HOSTILE = [
    "$(touch harmed)",
    "`touch harmed`",
    "a'; touch harmed; '",
    'a"; touch harmed; "',
    "a\ntouch harmed",
    "a\\",
    "a b",
    "a*",
    "a|touch",
    "a\x1b[2J",
    "a\u202e",
    "é",
    "-rf",
    "~root",
    "#a",
    "a" * 300,
    "",
]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_that_a_shell_would_read_as_something_else(ask: Ask, server: FakeServer, shell: str) -> None:
    rows = [job(name) for name in HOSTILE]
    texts = [job(f"good-{number}", text, created_at=text) for number, text in enumerate(HOSTILE)]
    server.on("GET", JOBS, Answer(page(*rows, *texts, job("a+b@c.d_e"))))
    said = ask(f"nemo --base-url {server.url} jobs get ", shell)
    wanted = [f"good-{number}" for number in range(len(HOSTILE))]
    if shell == "zsh":
        listed = "\n".join(f'"{name}"' for name in wanted)
        head, _, last = said.strip().removeprefix("_arguments '*: :((").removesuffix("))'").rpartition("\n")
        assert head == listed
        assert last.startswith('"a+b@c.d_e":"completed, ')
    else:
        assert [row.partition("\t")[0] for row in said.splitlines()] == [*wanted, "a+b@c.d_e"]


def test_bash_takes_words_apart() -> None:
    words = asked("bash", "nemo --base-url http://me@host:80 jobs list --filter.status=c")["COMP_WORDS"].split("\n")
    assert words[2:8] == ["http", ":", "//me", "@", "host", ":"]
    assert words[-3:] == ["--filter.status", "=", "c"]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("--filter.status=cr", "created"), ("--filter.status=", "created\npending"), ("--filter.name=a@", "")],
)
def test_an_option_and_its_value_in_one_word(ask: Ask, server: FakeServer, word: str, wanted: str) -> None:
    server.on("GET", JOBS, Answer(page(job("a@b"))))
    said = ask(f"nemo --base-url {server.url} jobs list {word}", "bash").strip()
    assert said.startswith(wanted)
    assert bool(said) is bool(wanted)


def test_at_a_bash(jobs: FakeServer, tmp_path: Path) -> None:
    """Installed by its own option, then used with the TAB key."""
    environ = {**put_on_path(tmp_path), "HOME": str(tmp_path)}
    installed = subprocess.run(
        ["bash", "-c", "nemo --install-completion; exit $?"], env=environ, capture_output=True, text=True, check=False
    )
    assert installed.returncode == 0, installed.stderr
    with Bash(tmp_path / ".bashrc", environ) as bash:
        line = f"nemo --base-url {jobs.url} jobs get o"
        assert bash.completed(line, "old ") == f"{line}ld "
        line = "nemo jobs list --filter.status=comp"
        assert bash.completed(line, "leted ") == f"{line}leted "
        line = f"nemo --base-url={jobs.url} jobs tail old --step-id=t"
        assert bash.completed(line, "train ") == f"{line}rain "


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here that could check its script")
    ended = subprocess.run(NEMO, env={"_NEMO_COMPLETE": f"source_{shell}"}, capture_output=True, text=True, check=True)
    assert "_NEMO_COMPLETE=complete_" + shell in ended.stdout
    (tmp_path / "script").write_text(ended.stdout)
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, capture_output=True)


def test_a_script_for_no_shell() -> None:
    ended = subprocess.run(NEMO, env={"_NEMO_COMPLETE": "source_tcl"}, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "Shell tcl not supported.\n")
