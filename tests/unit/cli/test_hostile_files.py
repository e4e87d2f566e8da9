"""Job and context files that are no such thing: the command ends soon, small, and with a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from nemo_airflow_provider.cli import contextfile
from tests.unit.cli.conftest import Nemo
from tests.unit.cli.fake_server import Answer, FakeServer
from tests.unit.cli.shapes import JOBS, PLATFORM_SPEC, job, page

# `ru_maxrss` of a child begins with that of the process that it was forked from, so the child itself says.
PROGRAM = """
import atexit, os, re, resource
from nemo_airflow_provider.cli.main import main

def report():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/status") as status, open(os.environ["TAKEN"], "w") as taken:
        kilobytes = re.search(r"VmHWM:\\s+(\\d+)", status.read())[1]
        taken.write(f"{usage.ru_utime + usage.ru_stime} {int(kilobytes) / 1000}")

atexit.register(report)
main()
"""
NEMO = [sys.executable, "-c", PROGRAM, "--base-url", "http://127.0.0.1:1"]
# A bomb that goes off takes minutes; the rest is for a busy machine.
MOST_SECONDS, MOST_MEGABYTES = 20, 200

BODY = {"source": "s", "spec": {}, "platform_spec": PLATFORM_SPEC}
LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
LONG_ALIASED = f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 1000)}]\n"
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30))


@dataclass(frozen=True)
class Ended:
    """A process that has ended, and what it took."""

    code: int
    out: str
    err: str
    cpu_seconds: float
    megabytes: float


Run = Callable[..., Ended]


@pytest.fixture
def nemo_process(tmp_path: Path) -> Run:
    taken = tmp_path / "taken"

    def run(*arguments: str, stdin: int = subprocess.DEVNULL, **environment: str) -> Ended:
        process = subprocess.run(
            [*NEMO, *arguments],
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "TAKEN": str(taken), **environment},
        )
        cpu_seconds, megabytes = map(float, taken.read_text().split())
        return Ended(process.returncode, process.stdout, process.stderr, cpu_seconds, megabytes)

    return run


def check(ended: Ended, code: int, sentence: str, *, most_megabytes: int = MOST_MEGABYTES) -> None:
    first = ended.err.splitlines()[0] if ended.err else ""
    assert sentence in first
    assert len(ended.err) < 5000
    assert "Traceback" not in ended.err
    assert (ended.code, ended.out) == (code, "")
    assert ended.cpu_seconds < MOST_SECONDS
    assert ended.megabytes < most_megabytes


def fifo(path: Path) -> None:
    os.mkfifo(path)


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def raw(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def sparse(size: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with path.open("wb") as stream:
            stream.truncate(size)

    return make


HOSTILE = [
    pytest.param(text(LAUGHS), "more than 100,000 values, with its aliases written out (line 6)", id="laughs"),
    pytest.param(text(LONG_ALIASED), "characters, with its aliases written out (line 2)", id="long-aliased"),
    pytest.param(text(MERGES), "values, with its aliases written out", id="merges"),
    pytest.param(text("a: 1\nb: &x {c: *x}\n"), "alias *x in line 2 stands inside the value it refers to", id="loop"),
    pytest.param(lambda path: path.symlink_to("/dev/zero"), "it is larger than ", id="endless"),
    pytest.param(sparse(1 << 40), "it is larger than ", id="huge"),
    pytest.param(fifo, "it is a pipe, and nothing came from it", id="fifo"),
    pytest.param(Path.mkdir, "Is a directory", id="directory"),
    pytest.param(raw(b"a: 1\nb: \xff\xfe"), "it is not UTF-8 text: byte 0xff in line 2", id="binary"),
    pytest.param(raw(b"a: 1\nb: \x00\n"), "#x0000", id="nul"),
    pytest.param(text("\n" + "[" * 200_000), "nesting depth", id="deep-flow"),
    pytest.param(text('{"a":' * 150_000), "nested more than 100 levels deep (line 1)", id="deep-json"),
    pytest.param(text("- " * 50_000 + "x"), "nested more than 100 levels deep", id="deep-block"),
    pytest.param(text("a: 1\nb: {c: 1,\n c: 2}\n"), "the key 'c' is given twice, in line 2 and in line 3", id="twice"),
    pytest.param(text('{"a": 1,\n "a": 2}'), "the key 'a' is given twice, in line 1 and in line 2", id="twice-json"),
    pytest.param(text("a: " + "1:" * 200_000 + "1"), "line 1", id="sexagesimal"),
    pytest.param(text("a: " + "1" * 500_000), "line 1", id="long-number"),
]


@pytest.mark.parametrize(("make", "sentence"), HOSTILE)
def test_a_job_file(make: Callable[[Path], object], sentence: str, nemo_process: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    make(file)
    ended = nemo_process("jobs", "create", "--input-file", str(file))
    check(ended, 2, sentence)
    assert str(file) in ended.err


@pytest.mark.parametrize(("make", "sentence"), HOSTILE)
def test_a_context_file(
    make: Callable[[Path], object], sentence: str, nemo: Nemo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "contexts.yaml"
    make(file)
    monkeypatch.setenv("NHX_CONFIG_FILE", str(file))
    result = nemo("jobs", "list")
    assert sentence in result.err.splitlines()[0]
    assert str(file) in result.err
    assert (result.code, result.out) == (1, "")


@pytest.mark.parametrize(
    "content",
    [
        "[" + "[]," * 2_700_000 + "[]]",
        "[" + "{}," * 2_700_000 + "{}]",
        "[" + "1," * 4_000_000 + "1]",
        "[" + '"",' * 2_700_000 + '""]',
        '["' + '\\"' * 4_100_000,
        "- a\n" * 2_000_000,
        "a: 'b\n",
        "{" + ",".join(f'"a{n}": 1' for n in range(90_000)) + "}",
        "source: " + "x" * 8_000_000,
        '{"source": "' + "\u20ac" * 2_700_000 + '"}',
        "source: s\nspec: {}\nplatform_spec:\n  steps:\n" + "  - {name: X}\n" * 20_000,
        "source: s\nspec: {}\nplatform_spec:\n  steps:\n  - {name: x, executor: {provider: " + "y" * 1_000_000 + "}}",
    ],
    ids=lambda content: content[:12],
)
def test_a_job_file_as_large_as_it_may_be(content: str, nemo_process: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(content)
    assert file.stat().st_size <= 8 * 1024 * 1024
    # Nearly three million empty lists or objects have their price.
    check(nemo_process("jobs", "create", "--input-file", str(file)), 2, "", most_megabytes=300)


VALUES = ",".join(f'"id-{number}"' for number in range(100_000))


def large(rest: str = "") -> str:
    return f'{{"source": "s", "platform_spec": {json.dumps(PLATFORM_SPEC)}, "spec": {{"ids": [{VALUES}]}}{rest}}}'


def test_a_json_job_file_may_have_many_values(server: FakeServer, nemo: Nemo, tmp_path: Path) -> None:
    server.on("POST", JOBS, Answer(job(), 201))
    file = tmp_path / "job.json"
    file.write_text(large())
    result = nemo("jobs", "create", "-i", str(file))
    assert (result.code, result.err) == (0, "")
    assert len(server.seen[0].json()["spec"]["ids"]) == 100_000


@pytest.mark.parametrize("item", ["{}", "[]", "1", '""', '{"a":1}'])
def test_a_json_job_file_of_values_only(item: str, nemo_process: Run, tmp_path: Path) -> None:
    """As many as the server's limit of 8 MiB lets through."""
    file = tmp_path / "job.json"
    content = f'{{"source": "s", "platform_spec": {json.dumps(PLATFORM_SPEC)}, "spec": {{"a": [%s]}}}}'
    file.write_text(content % ",".join([item] * (8_380_000 // (len(item) + 1))))
    ended = nemo_process("jobs", "create", "--input-file", str(file), "-f", "code")
    assert (ended.code, ended.err) == (0, "")
    assert ended.cpu_seconds < 2 * MOST_SECONDS
    assert ended.megabytes < 400


@pytest.mark.parametrize(
    ("rest", "fault"),
    [
        (',\n "source": "t"', "the key 'source' is given twice"),
        (",\n", "Expecting property name enclosed in double quotes: line 2 column 1"),
        (',\n "a": NaN', "NaN is no number of JSON"),
    ],
)
def test_a_large_json_file_with_a_fault_is_told_as_json(rest: str, fault: str, nemo: Nemo, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(large(rest))
    result = nemo("jobs", "create", "-i", str(file))
    assert result.err.startswith(f"Error: --input-file {file} cannot be used: as JSON, {fault}")
    assert (result.code, len(result.err) < 400) == (2, True)


def test_yaml_with_too_many_values_names_the_remedy(nemo: Nemo, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("source: s\nspec:\n  ids:\n" + "  - x\n" * 100_000)
    assert nemo("jobs", "create", "-i", str(file)).err == (
        f"Error: --input-file {file} cannot be used: it has more than 100,000 values, with its aliases written out "
        "(line 99997). Write it as JSON, which may have more, or put the data into a file or an object store and name "
        "that in the step's `config`.\n"
    )


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": [1e999]}', '{"a": -Infinity}'])
def test_numbers_that_json_does_not_have(text: str, nemo: Nemo) -> None:
    result = nemo("jobs", "create", "--input-data", text)
    assert "JSON" in result.err
    assert result.code == 2


def test_a_pipe_whose_writer_said_nothing(nemo: Nemo, tmp_path: Path) -> None:
    """As in `-i <(false)`."""
    file = tmp_path / "pipe"
    os.mkfifo(file)
    writer = threading.Thread(target=lambda: file.open("w").close())
    writer.start()
    result = nemo("jobs", "create", "-i", str(file))
    writer.join()
    assert result.err == f"Error: Cannot read --input-file {file}: it is a pipe, and nothing came from it\n"
    assert result.code == 2


def test_endless_stdin(nemo_process: Run) -> None:
    with open("/dev/zero", "rb") as zeros:
        ended = nemo_process("jobs", "create", "--input-file", "-", stdin=zeros.fileno())
    check(ended, 2, "Cannot read --input-file -: it is larger than 8 MiB")


def test_no_stdin_at_all() -> None:
    script = 'exec "$@" <&-'
    command = [sys.executable, "-m", "nemo_airflow_provider.cli.main", "jobs", "create", "-i", "-"]
    ended = subprocess.run(["sh", "-c", script, "sh", *command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "Error: Cannot read --input-file -: stdin is closed\n")


@pytest.mark.parametrize("pause", [0.0, 1.3])
def test_a_pipe_with_a_writer_is_read_to_its_end(pause: float, server: FakeServer, nemo: Nemo, tmp_path: Path) -> None:
    """As in `-i <(generate)`, also where what generates takes its time."""
    server.on("POST", JOBS, Answer(job(), 201))
    file = tmp_path / "pipe"
    os.mkfifo(file)

    def write() -> None:
        with file.open("w") as stream:
            threading.Event().wait(pause)
            stream.write(json.dumps({**BODY, "description": "x" * 200_000}))

    writer = threading.Thread(target=write)
    writer.start()
    result = nemo("jobs", "create", "-i", str(file))
    writer.join()
    assert (result.code, result.err) == (0, "")
    assert len(server.seen[0].json()["description"]) == 200_000


def test_a_job_file_near_the_limit_is_sent(server: FakeServer, nemo: Nemo, tmp_path: Path) -> None:
    server.on("POST", JOBS, Answer(job(), 201))
    file = tmp_path / "job.json"
    file.write_text("\ufeff" + json.dumps({**BODY, "spec": {"script": "[,:" * 2_000_000}}))
    assert nemo("jobs", "create", "-i", str(file)).code == 0
    assert server.seen[0].json()["spec"] == {"script": "[,:" * 2_000_000}


def test_aliases_and_merges_are_still_yaml(server: FakeServer, nemo: Nemo, tmp_path: Path) -> None:
    server.on("POST", JOBS, Answer(job(), 201))
    file = tmp_path / "job.yaml"
    content = (
        "source: s\n"
        "spec:\n"
        "  deep: {inner: &small {<<: &base {x: 1, y: 2}, x: 3}}\n"
        "  again: {<<: *small, y: 4}\n"
        "  both: [*base, *small]\n"
        f"platform_spec: {json.dumps(PLATFORM_SPEC)}\n"
    )
    file.write_text(content)
    assert nemo("jobs", "create", "-i", str(file)).code == 0
    assert server.seen[0].json() == yaml.safe_load(content)


def test_keys_that_become_the_same_on_the_wire(nemo: Nemo) -> None:
    result = nemo("jobs", "create", "--input-data", '{spec: {1: a, "1": b}}')
    assert result.err == "Error: --input-data cannot be used: the key '1' is given twice\n"
    assert result.code == 2


def test_a_deep_filter_is_a_usage_error(nemo: Nemo) -> None:
    result = nemo("jobs", "list", "--filter", '{"a":' * 20_000)
    assert result.err.startswith("Error: Invalid filter JSON: ")
    assert result.code == 2


@pytest.mark.parametrize(
    "arguments", [("--description", "\udcff"), ("--input-data", '{"description": "\\ud800"}'), ("--source", "a\ud800b")]
)
def test_text_that_is_no_unicode(arguments: tuple[str, str], server: FakeServer, nemo: Nemo) -> None:
    given = ("jobs", "create", "pz-1", "--spec", "{}", "--platform-spec", json.dumps(PLATFORM_SPEC))
    result = nemo(*given, *(() if arguments[0] == "--source" else ("--source", "s")), *arguments)
    assert "is not Unicode text" in result.err
    assert (result.code, server.seen) == (2, [])


def test_a_login_replaces_files_only(tmp_path: Path) -> None:
    """Not a device: as root, `NHX_CONFIG_FILE=/dev/null nemo login` would leave a file in its place."""
    target = tmp_path / "device"
    os.mkfifo(target)
    with pytest.raises(contextfile.ContextFileError, match=r"Cannot write the context file .*: it is not a file"):
        contextfile.save(target, {"a": 1})
    assert target.is_fifo()


@pytest.mark.parametrize(
    "content",
    [
        "current_context: [a]\ncontexts: [{name: [a]}]",
        "current_context: a\ncontexts: [{name: a, workspace: 5, cluster: {}, user: [x]}]",
        "current_context: a\ncontexts: [{name: a, cluster: c}]\nclusters: [{name: c, certificate_authority: 5}]",
        "current_context: a\ncontexts: [{name: a, cluster: c}]\nclusters: [{name: c, base_url: [x]}]",
        "current_context: a\ncontexts: [{name: a, user: u}]\nusers: [{name: u, type: oauth, token: {a: b}}]",
        "current_context: a\ncontexts: [{name: a, preferences: 7}]",
        "contexts: {a: b}\nclusters: 7\nusers: null",
    ],
)
def test_values_of_another_kind_end_in_a_sentence(
    content: str, server: FakeServer, nemo: Nemo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "contexts.yaml"
    file.write_text(content)
    monkeypatch.setenv("NHX_CONFIG_FILE", str(file))
    server.on("GET", JOBS, Answer(page(job())))
    server.on("GET", "/auth/token", Answer({"access_token": "t"}, 201))
    for arguments in (("jobs", "list"), ("config", "view"), ("login",)):
        assert "Unexpected error" not in nemo(*arguments).err
