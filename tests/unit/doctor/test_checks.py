"""What is said about an installation, and how bad it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.backends import registry
from nemo_airflow_provider.backends.registry import BackendEntry
from nemo_airflow_provider.doctor import checks, gather
from nemo_airflow_provider.doctor.configfile import FileReport
from nemo_airflow_provider.doctor.facts import Anchor, DatabaseTrouble, Engine, Installation, Workspaces
from nemo_airflow_provider.doctor.findings import Level
from nemo_airflow_provider.doctor.recommended import RECOMMENDED
from nemo_airflow_provider.standalone.environment import DEFAULTS
from tests.unit.doctor.conftest import DATABASE, Bad

ERROR, WARNING, NOTE = Level.ERROR, Level.WARNING, Level.NOTE
CELERY = {("core", "executor"): "CeleryExecutor"}
SHARED = {("nemo", "storage"): "/mnt/nemo"}
HOST = "platform: {runtime: none}\njobs: {executors: [{backend: subprocess, config: {airflow: {queue: box}}}]}"


def test_nothing_is_wrong_with_a_good_installation(bad: Bad) -> None:
    assert bad() == []


@pytest.mark.parametrize(
    ("options", "level", "check", "words"),
    [
        ({("scheduler", "scheduler_idle_sleep_time"): "1"}, WARNING, "settings", "scheduler_idle_sleep_time is 1"),
        ({("workers", "min_heartbeat_interval"): "5"}, WARNING, "settings", "min_heartbeat_interval is 5"),
        ({("scheduler", "orphaned_tasks_check_interval"): "x"}, ERROR, "settings", "is no number: 'x'"),
        ({("api", "workers"): "1"}, WARNING, "settings", "[api] workers is 1"),
        ({("api", "base_url"): ""}, WARNING, "task url", "http://localhost:8080"),
        ({("api", "base_url"): "airflow:8080"}, ERROR, "task url", "[api] base_url is no URL"),
        ({("api", "base_url"): "http://a:port"}, ERROR, "task url", "is no URL"),
        ({("nemo", "task_base_url"): "http://a/?x=1"}, ERROR, "task url", "[nemo] task_base_url has a query"),
        (
            CELERY | SHARED | {("api", "base_url"): "http://localhost:8080"},
            WARNING,
            "task url",
            "workers of CeleryExecutor may be elsewhere",
        ),
        ({("nemo", "probe_engines"): "maybe"}, ERROR, "options", "probe_engines is 'maybe'"),
        ({("dag_processor", "dag_bundle_config_list"): "["}, ERROR, "bundle", "is not JSON"),
        (CELERY, WARNING, "storage", "steps may run on other hosts"),
        (
            {
                (
                    "core",
                    "auth_manager",
                ): "x.SimpleAuthManager"
            },
            WARNING,
            "users",
            "made for trying",
        ),
    ],
)
def test_an_option(bad: Bad, options: dict[Any, str], level: Level, check: str, words: str) -> None:
    (finding,) = bad(options)
    assert (finding.level, finding.check) == (level, check)
    assert words in finding.message
    assert finding.remedy


PODS = "platform: {%s}\njobs: {executors: [{provider: cpu, profile: far, backend: kubernetes_job, config: {}}]}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://127.1.2.3", "https://airflow.localhost/x"])
def test_a_task_url_that_means_the_pod_itself(bad: Bad, url: str) -> None:
    pytest.importorskip("kubernetes")
    option = {("api", "base_url"): url}
    (finding,) = (each for each in bad(option, PODS % "runtime: docker") if each.check == "task url")
    assert finding.level is WARNING
    assert "pods of cpu/far:" in finding.message
    assert "platform.loopback_address" in finding.remedy
    told = "runtime: docker, loopback_address: 10.0.0.1"
    assert [each for each in bad(option, PODS % told) if each.check == "task url"] == []


def test_a_task_url_is_nothing_to_profiles_that_cannot_run(bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BackendEntry, "backend_path", None)
    url = {("api", "base_url"): "http://127.0.0.1:8080"}
    assert "task url" not in [each.check for each in bad(url, PODS % "runtime: docker")]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("", ["Or leave built-in profiles out: set platform.runtime to what steps are to run with."]),
        # It would stay under another runtime too.
        (
            "{provider: cpu, backend: docker, config: {}}",
            ["Or correct or remove the entry: jobs.executors[0], line 2."],
        ),
        (
            "{profile: far, backend: kubernetes_job, config: {}}",
            [
                "Or leave built-in profiles out: set platform.runtime to what steps are to run with.",
                "Or correct or remove the entry: jobs.executors[0], line 2.",
            ],
        ),
    ],
)
def test_how_to_do_without_an_engine_that_does_not_answer(bad: Bad, entry: str, said: list[str]) -> None:
    text = f"platform: {{runtime: docker}}\njobs: {{executors: [{entry}]}}"
    engine = Engine(("cpu/default", "cpu/far"), "No answer.")
    (finding,) = (each for each in bad(profiles=text, engines=(engine,)) if each.check == "engines")
    assert finding.remedy == " ".join(said)


def test_options_that_cannot_be_read(bad: Bad) -> None:
    found = bad(bad_options=("[nemo] max_shapes: no number", "[nemo] secret_grants is not JSON"))
    assert [(finding.level, finding.check) for finding in found] == [(ERROR, "options")] * 2


def test_numbers_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("max_shapes", "pause_hold_seconds", "sweep_seconds", "task_log_max_lines")
    for name in names:
        monkeypatch.setenv(f"AIRFLOW__NEMO__{name.upper()}", "1m")
    found = sorted(gather.bad_options(Workspaces(("default",))))
    assert [text.split(":")[0] for text in found] == [f"[nemo] {name}" for name in names]
    assert all("1m" in text for text in found)


def test_a_sweep_and_a_shape_that_are_paused(bad: Bad) -> None:
    found = bad(database=replace(DATABASE, paused=("nemo-sweep", "nemo.default.a.1")))
    assert [finding.remedy for finding in found] == [
        "Unpause it: airflow dags unpause nemo.default.a.1",
        "Unpause it: airflow dags unpause nemo-sweep",
    ]


@pytest.mark.parametrize(("host", "level"), [("127.0.0.1", WARNING), ("0.0.0.0", ERROR), ("", ERROR)])
def test_everybody_is_an_administrator(bad: Bad, host: str, level: Level) -> None:
    options = {
        ("core", "auth_manager"): "x.SimpleAuthManager",
        ("core", "simple_auth_manager_all_admins"): "True",
        ("api", "host"): host,
    }
    (finding,) = bad(options)
    assert (finding.level, finding.check) == (level, "users")


def test_the_launcher_uses_what_is_recommended() -> None:
    for each in RECOMMENDED:
        assert float(DEFAULTS[f"AIRFLOW__{each.section.upper()}__{each.name.upper()}"]) <= each.most


class TestParts:
    @pytest.mark.parametrize(
        ("change", "level", "check", "words"),
        [
            ({"alive": {"scheduler": 0, "dag-processor": 1}}, ERROR, "scheduler", "None has reported itself"),
            ({"alive": {"scheduler": 1, "dag-processor": 0}}, ERROR, "dag-processor", "None has reported itself"),
            ({"anchors": {"default": Anchor(known=False)}}, ERROR, "dag file", "does not know the DAG nemo.default"),
            ({"anchors": {"default": Anchor(True, stale=True)}}, ERROR, "dag file", "does not know the DAG"),
            ({"import_error": "ImportError: x"}, ERROR, "dag file", "cannot be imported: ImportError: x"),
            ({"paused": ("nemo.default.a.1", "b")}, WARNING, "paused", "nemo.default.a.1 and 1 more is paused"),
            ({"paused": ("nemo-sweep",)}, WARNING, "paused", "nemo-sweep is paused: what jobs leave behind stays"),
            ({"shapes": 400}, WARNING, "shapes", "400 of 500 job shapes"),
            ({"shapes": 500}, ERROR, "shapes", "jobs of a new shape are refused"),
            ({"runs_read": 9, "no_jobs": ("d / r",)}, WARNING, "runs", "1 of the newest 9 runs"),
        ],
    )
    def test_that_the_database_tells(
        self, bad: Bad, change: dict[str, Any], level: Level, check: str, words: str
    ) -> None:
        (finding,) = bad(database=replace(DATABASE, **change))
        assert (finding.level, finding.check) == (level, check)
        assert words in finding.message
        assert finding.remedy

    def test_a_database_that_is_away_is_one_line(self, bad: Bad) -> None:
        (finding,) = bad(database=DatabaseTrouble("It does not answer: no", "Start it."))
        assert (finding.level, finding.check) == (ERROR, "database")

    def test_sqlite_is_for_trying_and_wants_no_second_worker(self, bad: Bad) -> None:
        (finding,) = bad({("api", "workers"): "1"}, dialect="sqlite")
        assert (finding.level, finding.check) == (WARNING, "database")

    def test_a_file_in_a_dag_folder_will_do(self, bad: Bad) -> None:
        no_bundle = {("dag_processor", "dag_bundle_config_list"): ""}
        assert bad(no_bundle) == []
        (finding,) = bad(no_bundle, database=DatabaseTrouble("away", "x"))[1:]
        assert (finding.level, finding.check) == (ERROR, "bundle")
        assert "JobsDagBundle" in finding.remedy

    def test_the_plugin(self, bad: Bad) -> None:
        (finding,) = bad(plugin_problem="Airflow does not load it.")
        assert (finding.level, finding.check) == (ERROR, "plugin")


class TestAccess:
    def test_workspaces_that_are_wrong(self, bad: Bad) -> None:
        (finding,) = bad(workspaces=Workspaces(problem="[nemo] workspaces is not JSON"))
        assert (finding.level, finding.check) == (ERROR, "workspaces")

    def test_access_control_that_nobody_asks(self, bad: Bad) -> None:
        simple = {("core", "auth_manager"): "x.SimpleAuthManager"}
        found = bad(simple, workspaces=Workspaces(("a", "b"), restricted=("b",)))
        assert [finding.message.split(":")[0] for finding in found if finding.check == "workspaces"] == [
            "access_control of b has no effect"
        ]


class TestStorage:
    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda path: path.write_text(""), "is no directory"),
            (lambda path: None, None),
        ],
    )
    def test_is_a_directory_that_can_be_made(
        self, bad: Bad, tmp_path: Path, make: Callable[[Path], object], words: str | None
    ) -> None:
        make(tmp_path / "store")
        found = bad(storage=tmp_path / "store")
        assert [words in finding.message for finding in found] == ([True] if words else [])

    def test_below_a_file(self, bad: Bad, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        (finding,) = bad(storage=tmp_path / "file" / "store")
        assert "may not make it" in finding.message

    def test_relative(self, bad: Bad) -> None:
        (finding,) = bad(storage=Path("store"))
        assert (finding.level, finding.check) == (ERROR, "storage")


class TestProfiles:
    def test_processes_mean_trust(self, bad: Bad) -> None:
        (finding,) = bad(profiles=HOST)
        assert (finding.level, finding.check) == (NOTE, "trust")
        assert "subprocess/default" in finding.message

    @pytest.mark.parametrize(("executor", "warned"), [("LocalExecutor", False), ("CeleryExecutor,LocalExecutor", True)])
    def test_steps_of_a_host_need_a_queue_where_there_are_several(self, bad: Bad, executor: str, warned: bool) -> None:
        options = {("core", "executor"): executor} | SHARED
        assert "hosts" not in [finding.check for finding in bad(options, profiles=HOST)]
        found = bad(options, profiles=HOST.replace("{queue: box}", "{}"))
        assert ("hosts" in [finding.check for finding in found]) is warned

    def test_several_schedulers_are_several_hosts(self, bad: Bad) -> None:
        found = bad(
            profiles=HOST.replace("{queue: box}", "{}"),
            database=replace(DATABASE, alive={"scheduler": 2, "dag-processor": 1}),
        )
        assert [finding.check for finding in found] == ["hosts", "trust"]

    def test_an_engine_that_a_connection_names_is_no_host(self, bad: Bad, provided: None) -> None:
        text = "platform: {runtime: none}\njobs: {executors: [{config: {%s}}], enable_subprocess_executor: false}"
        options = CELERY | SHARED
        assert "hosts" in [finding.check for finding in bad(options, profiles=text % "")]
        assert "hosts" not in [finding.check for finding in bad(options, profiles=text % "docker_conn_id: far")]

    @pytest.fixture
    def provided(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(BackendEntry, "provided", True)

    def test_what_is_not_installed(self, bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(BackendEntry, "backend_path", "some.where")
        monkeypatch.setattr(registry, "_importable", lambda module: False)
        found = [finding for finding in bad(profiles="platform: {runtime: kubernetes}") if finding.check == "backends"]
        assert [finding.remedy for finding in found] == ["pip install 'nemo-airflow-provider[kubernetes]'"] * 2

    @pytest.mark.parametrize(
        ("entries", "told"), [("", []), ("{profile: far, backend: kubernetes_job, config: {}}", ["cpu/far"])]
    )
    def test_what_is_built_in_and_listed_only_is_no_warning(
        self,
        bad: Bad,
        file_report: Callable[[str], FileReport],
        monkeypatch: pytest.MonkeyPatch,
        entries: str,
        told: list[str],
    ) -> None:
        monkeypatch.setattr(BackendEntry, "backend_path", None)
        text = f"platform: {{runtime: kubernetes}}\njobs: {{executors: [{entries}]}}"
        said = [each.message for each in bad(profiles=text) if each.check == "backends"]
        assert [each.split()[2] for each in said] == told
        of_file = [each.message for each in checks.profiles.of_file(file_report(text), several_hosts=False)]
        assert [each.split()[2] for each in of_file] == told

    def test_pools_and_executors_that_are_not_there(self, bad: Bad) -> None:
        found = bad(profiles=HOST.replace("queue: box", "pool: gpus, executor: Other"))
        assert [(finding.level, finding.check) for finding in found[:2]] == [(NOTE, "trust"), (ERROR, "executors")]
        (finding,) = found[2:]
        assert finding.remedy == "Make it: airflow pools set gpus SLOTS DESCRIPTION"

    @pytest.mark.parametrize("name", ["Other", "other", "a.b.Other"])
    def test_an_executor_has_several_names(self, bad: Bad, name: str) -> None:
        options = {("core", "executor"): "LocalExecutor,team=other:a.b.Other"} | SHARED
        found = bad(options, profiles=HOST.replace("queue: box", f"queue: box, executor: {name}"))
        assert [finding.check for finding in found] == ["trust"]

    def test_a_broken_file_is_told_line_by_line(
        self, bad: Bad, file_report: Callable[[str], FileReport], tmp_path: Path
    ) -> None:
        found = bad(profiles="jobs:\n  executers: []\n  zzz: 1\n")
        assert [finding.message.replace(f"{tmp_path}/", "") for finding in found] == [
            "jobs.yaml:2: jobs.executers: unknown key; did you mean 'executors'?",
            "jobs.yaml:3: jobs.zzz: unknown key",
        ]

    def test_what_changes_nothing_is_listed(self, bad: Bad) -> None:
        text = "platform: {runtime: none, base_url: http://a}\njobs: {reconcile_interval_seconds: 1}"
        (finding,) = [finding for finding in bad(profiles=text) if finding.check == "config file"]
        assert "platform.base_url" in finding.message
        assert "reconcile_interval_seconds" in finding.message


def test_a_check_that_fails_does_not_take_the_others_with_it(bad: Bad, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_installation: Installation) -> Any:
        raise RuntimeError("boom")

    monkeypatch.setattr(checks, "CHECKS", (broken, *checks.CHECKS))
    (finding,) = bad()
    assert (finding.level, finding.check) == (ERROR, "broken")
    assert "RuntimeError: boom" in finding.message
