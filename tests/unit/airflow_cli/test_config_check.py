"""`airflow nemo config check`: what it prints, how it ends, and that no input of any kind breaks it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from nemo_airflow_provider.airflow_cli import commands
from nemo_airflow_provider.backends.registry import BACKENDS, BackendEntry


class Outcome(NamedTuple):
    """How the command ended and what it printed, without the directory of the file."""

    code: int
    out: str
    err: str


Check = Callable[..., Outcome]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Runs the command on a text, on a path, or on what is configured (None)."""

    def run(given: str | bytes | Path | None, output: str = "table", strict: bool = False) -> Outcome:
        path = given if isinstance(given, Path) else tmp_path / "jobs.yaml"
        if isinstance(given, str | bytes):
            path.write_bytes(given if isinstance(given, bytes) else given.encode())
        args = argparse.Namespace(file=None if given is None else str(path), output=output, strict=strict)
        with pytest.raises(SystemExit) as ended:
            commands.config_check(args)
        out, err = (text.replace(f"{tmp_path}/", "") for text in capsys.readouterr())
        assert "Traceback" not in out + err
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, out, err)

    return run


GOOD = (
    "platform: {runtime: none}\n"
    "jobs:\n"
    "  executors:\n"
    "  - {backend: subprocess, config: {working_directory: /srv, env: {A: b}}}\n"
    "  - {backend: subprocess, profile: long, config: {airflow: {pool: slow}}}\n"
)
WARNED = GOOD + "  reconcile_interval_seconds: 3\n"


class TestGood:
    def test_shows_the_merged_profiles(self, check: Check) -> None:
        code, out, err = check(GOOD)
        assert (code, err) == (0, "'jobs.yaml': fine.\n")
        assert out == (
            "subprocess/default\n"
            "  backend    subprocess\n"
            "  runs here  yes\n"
            "  from       built-in, changed by jobs.executors[0], line 4\n"
            "  changed\n"
            "    env: {A: b}\n"
            "    working_directory: /srv\n"
            "\n"
            "subprocess/long\n"
            "  backend    subprocess\n"
            "  runs here  yes\n"
            "  from       jobs.executors[1], line 5\n"
            "  changed\n"
            "    airflow: {pool: slow}\n"
            "\n"
        )

    def test_json_has_every_key_and_nothing_beside_it(self, check: Check) -> None:
        code, out, err = check(GOOD, output="json")
        shown = json.loads(out)
        assert (code, err, shown["result"], shown["findings"], shown["file"]) == (0, "", "ok", [], "jobs.yaml")
        first = shown["profiles"][0]
        assert {key: value for key, value in first.items() if key != "config"} == {
            "provider": "subprocess",
            "profile": "default",
            "backend": "subprocess",
            "provided": True,
            "reason": "",
            "remedy": "",
            "origin": "built-in, changed by jobs.executors[0], line 4",
        }
        assert first["config"]["working_directory"] == "/srv"
        assert first["config"]["ttl_seconds_active"] == 86400

    def test_without_a_file_the_configured_one(
        self, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "other.yaml").write_text(WARNED)
        monkeypatch.setenv("NHX_CONFIG_FILE_PATH", str(tmp_path / "other.yaml"))
        assert check(None).err == "'other.yaml': 1 warning.\n"
        monkeypatch.delenv("NHX_CONFIG_FILE_PATH")
        assert check(None).err == "no file (built-in profiles): fine.\n"

    def test_variables_count(self, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
        entries = [{"backend": "subprocess", "profile": "mine"}]
        monkeypatch.setenv("NHX_JOBS_EXECUTORS", json.dumps(entries))
        shown = json.loads(check(GOOD, output="json").out)
        assert [(each["profile"], each["origin"]) for each in shown["profiles"]] == [
            ("default", "built-in"),
            ("mine", "[0]"),
        ]


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the containers' backends, one has code and lacks a package, and the others have no code."""
    real = BackendEntry.backend_path.fget
    assert real is not None

    def path(entry: BackendEntry) -> str | None:
        return {"docker": "toys.DockerBackend", "subprocess": real(entry)}.get(entry.name)

    monkeypatch.setattr(BackendEntry, "backend_path", property(path))
    monkeypatch.setitem(BACKENDS, "docker", replace(BACKENDS["docker"], packages=("no_such_package_xyz",)))


@pytest.mark.usefixtures("toys")
class TestWhatCannotRunHere:
    TEXT = "platform: {runtime: docker}\njobs: {executors: [{backend: kubernetes_job, profile: far, config: {}}]}\n"
    REASONS = (
        "backend 'docker' needs the Python package no_such_package_xyz, which is not installed",
        "this version lists backend 'kubernetes_job' and cannot run it",
    )
    REMEDIES = ("pip install 'nemo-airflow-provider[docker]'", "Use profiles of another backend: subprocess")

    def test_is_told_at_each_profile(self, check: Check) -> None:
        _, out, _ = check(self.TEXT)
        told = {
            paragraph.splitlines()[0]: " ".join(paragraph.partition("runs here")[2].partition("from")[0].split())
            for paragraph in out.split("\n\n")[:-1]
        }
        docker, kubernetes = (f"no: {why} → {do}" for why, do in zip(self.REASONS, self.REMEDIES, strict=True))
        assert told == {
            "cpu/default": docker,
            "gpu/default": docker,
            "subprocess/default": "yes",
            "cpu/far": kubernetes,
        }
        shown = {each["profile"]: each for each in json.loads(check(self.TEXT, output="json").out)["profiles"]}
        far = shown["far"]
        assert (far["provided"], far["reason"], far["remedy"]) == (False, self.REASONS[1], self.REMEDIES[1])

    def test_is_a_warning_for_each_reason(self, check: Check) -> None:
        code, out, err = check(self.TEXT)
        profiles = ("cpu/default, gpu/default", "cpu/far")
        assert [line for line in out.splitlines() if line.startswith("warning")] == [
            f"warning  steps of {whose} cannot run here: {why} → {do}"
            for whose, why, do in zip(profiles, self.REASONS, self.REMEDIES, strict=True)
        ]
        assert (code, err, check(self.TEXT, strict=True).code) == (0, "'jobs.yaml': 2 warnings.\n", 1)


class TestWidth:
    @pytest.mark.parametrize("columns", [None, 60, 200])
    def test_everything_fits(self, check: Check, monkeypatch: pytest.MonkeyPatch, columns: int | None) -> None:
        if columns is not None:
            monkeypatch.setattr(commands, "is_terminal", lambda stream: True)
            monkeypatch.setenv("COLUMNS", str(columns))
        text = GOOD.replace("runtime: none", "runtime: kubernetes") + (
            "  - backend: kubernetes_job\n"
            "    profile: wide\n"
            "    config:\n"
            f"      env: {{LONG: '{'word ' * 40}'}}\n"
            f"      tolerations: [{{key: a, values: [{', '.join(f'item{n}' for n in range(40))}]}}]\n"
        )
        shown = check(text).out.partition("\nwarning")[0]
        assert max(map(len, shown.splitlines())) <= (columns or 80)
        (changed,) = [part.partition("changed\n")[2] for part in shown.split("\n\n") if part.startswith("cpu/wide")]
        assert yaml.safe_load(changed) == yaml.safe_load(text)["jobs"]["executors"][2]["config"]

    def test_what_has_no_spaces_stays_whole(self, check: Check) -> None:
        word = "x" * 300
        assert f"    working_directory: /{word}\n" in check(GOOD.replace("/srv", f"/{word}")).out


class TestWarnings:
    @pytest.mark.parametrize(
        ("text", "warning"),
        [
            (WARNED, "jobs.yaml:6: jobs.reconcile_interval_seconds: accepted without effect"),
            (
                GOOD.replace("working_directory: /srv", "launcher_tool_path: /x"),
                "jobs.yaml:4: jobs.executors[0].config.launcher_tool_path: accepted without effect",
            ),
            (
                GOOD + "  - {backend: e2e}\n",
                "Skipping executor profile cpu/default using backend 'e2e' because this product has no such backend.",
            ),
            (
                GOOD + "  executor_defaults: {subprocess: {env: {B: c}, working_directory: /srv}}\n",
                "jobs.yaml:4: jobs.executors[0].config.env: replaces executor_defaults.subprocess.env as a whole",
            ),
            (
                GOOD + "  executor_defaults: {subprocess: {ttl_seconds_active: 5}}\n",
                "profile 'subprocess/long' does not inherit ttl_seconds_active from executor_defaults.subprocess",
            ),
            (GOOD.replace("runtime: none", "runtime: none, runtim: x"), "did you mean 'runtime'?"),
        ],
    )
    def test_are_told_and_count_when_strict(self, check: Check, text: str, warning: str) -> None:
        code, out, err = check(text)
        told = [line.removeprefix("warning  ") for line in out.splitlines() if line.startswith("warning")]
        assert any(warning in line for line in told)
        assert (code, check(text, strict=True).code) == (0, 1)
        assert "warning" in err
        assert json.loads(check(text, output="json").out)["result"] == "warning"

    def test_several_hosts(self, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
        text = GOOD.replace("pool: slow", "queue: box")
        (line,) = [line for line in check(text).out.splitlines() if line.startswith("warning")]
        assert "profile 'subprocess/default' (built-in, changed by jobs.executors[0], line 4)" in line


CYCLE = "jobs:\n  executors: &a [*a]\n"
BOMB = "\n".join(
    ["x0: &x0 {a: 1, b: 2, c: 3, d: 4}"]
    + [f"x{n}: &x{n} {{a: *x{n - 1}, b: *x{n - 1}, c: *x{n - 1}, d: *x{n - 1}}}" for n in range(1, 30)]
    + ["jobs: {executors: [{config: {pod_metadata: *x29}}]}"]
)
MERGE_BOMB = "\n".join(
    ["x0: &x0 {a: 1, b: 2, c: 3, d: 4}"]
    + [f"x{n}: &x{n} {{<<: [*x{n - 1}, *x{n - 1}, *x{n - 1}, *x{n - 1}]}}" for n in range(1, 30)]
    + ["jobs: {executors: [{config: {pod_metadata: *x29}}]}"]
)


class TestBad:
    @pytest.mark.parametrize(
        ("content", "beginning"),
        [
            ("jobs:\n  executers: []\n", "jobs.yaml:2: jobs.executers: unknown key; did you mean 'executors'?"),
            ("jobs:\n\texecutors: []\n", "Error parsing NeMo Helix configuration file as YAML: jobs.yaml:2: "),
            ("jobs: {}\njobs: {}\n", "jobs.yaml:2: jobs: key is given twice, first in line 1"),
            (CYCLE, "jobs.yaml:2: jobs.executors[0]: an alias (`*name`) stands inside the value it refers to"),
            (BOMB, "jobs.yaml:31: jobs: more than 100,000 values, with its aliases written out"),
            (MERGE_BOMB, "jobs.yaml:31: jobs: more than 100,000 values, with its aliases written out"),
            ("jobs: {executors: [" + "1:" * 20_000 + "1]}", "Error parsing NeMo Helix configuration file as YAML: "),
            ("", "NeMo Helix configuration file is empty: 'jobs.yaml'"),
            (
                b"\x7fELF\x02\x01\x01\x00\xff\xfe",
                "Configuration file 'jobs.yaml' is not UTF-8 text: byte 0xff in line 1",
            ),
            (b"a: 1\n\xe9: 2\n", "Configuration file 'jobs.yaml' is not UTF-8 text: byte 0xe9 in line 2"),
            (b"a: \x00", "Error parsing NeMo Helix configuration file as YAML: jobs.yaml:1: character #x0000"),
            (
                "jobs: {executors: [{backend: subprocess, config: {env: {NHX_ACCESS_TOKEN: x}}}]}",
                "jobs.yaml:1: jobs.executors[0].config.env: Profile environment keys must not conflict with "
                "platform-reserved auth environment keys: ['NHX_ACCESS_TOKEN']",
            ),
        ],
    )
    def test_content_is_an_error_with_its_place(self, check: Check, content: str | bytes, beginning: str) -> None:
        code, out, err = check(content)
        assert code == 1
        assert out.splitlines()[0].startswith(f"error    {beginning}")
        assert err == "'jobs.yaml': 1 error.\n"
        shown = json.loads(check(content, output="json").out)
        assert (shown["result"], shown["profiles"]) == ("error", [])
        assert shown["findings"][0]["message"].endswith(out.splitlines()[0][-20:])

    def test_all_errors_are_told(self, check: Check) -> None:
        code, out, err = check("platform: {runtime: x}\njobs: {a: 1, b: 2}")
        assert (code, len(out.splitlines()), err) == (1, 3, "'jobs.yaml': 3 errors.\n")

    def test_a_huge_file(self, check: Check, tmp_path: Path) -> None:
        path = tmp_path / "huge.yaml"
        with path.open("wb") as file:
            file.truncate(100 * 1024 * 1024)
        code, out, _ = check(path)
        assert (code, out) == (
            1,
            "error    Configuration file 'huge.yaml' is larger than 1024 KiB, which is the most that is read.\n",
        )

    def test_what_could_steer_a_terminal_is_taken_out(self, check: Check) -> None:
        _, out, _ = check('jobs: {"a\\e[31m\\nb": 1}')
        assert "\x1b" not in out
        assert len(out.splitlines()) == 1


class TestNothingToRead:
    @pytest.mark.parametrize(
        ("make", "reason"),
        [
            (lambda path: None, "does not exist."),
            (Path.mkdir, "cannot be read: Is a directory."),
            (os.mkfifo, "cannot be read: Not a regular file."),
            (lambda path: path.symlink_to("/dev/zero"), "cannot be read: Not a regular file."),
            (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links."),
        ],
    )
    def test_is_told_and_ends_with_2(
        self, check: Check, tmp_path: Path, make: Callable[[Path], object], reason: str
    ) -> None:
        path = tmp_path / "odd.yaml"
        make(path)
        code, out, err = check(path)
        assert (code, out) == (2, f"error    Configuration file 'odd.yaml' {reason}\n")
        assert err == "'odd.yaml': 1 error.\n"

    def test_a_path_that_cannot_be_one(self, check: Check) -> None:
        assert check(Path("a\0b")).code == 2
        assert check(Path("a" * 5000)).code == 2

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_is_closed_to_us(self, check: Check, tmp_path: Path) -> None:
        path = tmp_path / "closed.yaml"
        path.write_text(GOOD)
        path.chmod(0)
        assert check(path).code == 2
