"""`airflow nemo config check`: what it prints, how it ends, and that no input of any kind breaks it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from nemo_airflow_provider.airflow_cli import commands


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
        rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line[0] == "│"]
        assert rows == [
            [
                "subprocess/default",
                "subprocess",
                "built-in, changed by jobs.executors[0], line 4",
                "env: {A: b}",
            ],
            ["", "", "", "working_directory: /srv"],
            ["subprocess/long", "subprocess", "jobs.executors[1], line 5", "airflow: {pool: slow}"],
        ]

    def test_json_has_every_key_and_nothing_beside_it(self, check: Check) -> None:
        code, out, err = check(GOOD, output="json")
        shown = json.loads(out)
        assert (code, err, shown["result"], shown["findings"], shown["file"]) == (0, "", "ok", [], "jobs.yaml")
        first = shown["profiles"][0]
        assert {key: first[key] for key in ("provider", "profile", "backend", "provided", "origin")} == {
            "provider": "subprocess",
            "profile": "default",
            "backend": "subprocess",
            "provided": True,
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
