"""Shapes as DAGs: names, operators, order, and what a broken one does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing import dagbag
from airflow.sdk import DAG

from nemo_airflow_provider import settings
from nemo_airflow_provider.dags import shapes
from nemo_airflow_provider.dags.bundle import JobsDagBundle
from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.model.shape import Shape, loads, shape_of
from nemo_airflow_provider.profiles import load_profiles
from nemo_airflow_provider.provider_info import get_provider_info

SHAPE = shape_of("default", [("prepare", "subprocess", "default"), ("a@b", "gpu", "big"), ("c.d", "cpu", "default")])

PROFILES = """
platform: {runtime: kubernetes}
jobs:
  enable_subprocess_executor: true
  executors:
    - {provider: gpu, profile: big, backend: kubernetes_job,
       config: {airflow: {queue: gpus, pool: big-gpus, priority_weight: 7}}}
"""


SWEPT = (
    PROFILES
    + """
    - {provider: subprocess, profile: far, backend: subprocess, config: {airflow: {queue: Räume 1}}}
"""
)


class Variables:
    """The border to Airflow's Variables."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.read: list[str] = []

    def keys(self, prefix: str) -> list[str]:
        return [key for key in self._values if key.startswith(prefix)]

    def get(self, key: str, default: Any = None) -> str | None:
        self.read.append(key)
        return self._values.get(key, default)


def stored(*stored_shapes: Shape) -> dict[str, str]:
    return {f"nemo.shape.{shape.dag_id}": shape.dumps() for shape in stored_shapes}


def defined(monkeypatch: pytest.MonkeyPatch, variables: Variables, wanted: str | None = None) -> dict[str, DAG]:
    monkeypatch.setattr(shapes, "Variable", variables)
    monkeypatch.setenv("AIRFLOW__NEMO__WORKSPACES", '["default", "research"]')
    monkeypatch.delenv("NHX_CONFIG_FILE_PATH", raising=False)
    if wanted:
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
    namespace: dict[str, Any] = {}
    shapes.define_dags(namespace)
    return {dag.dag_id: dag for dag in namespace.values()}


def test_steps_are_tasks_of_their_profiles_operators(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(PROFILES)
    profiles = load_profiles(file, environ={}, probe=None)
    dag = shapes.build_dag(SHAPE, settings.Workspace("default"), profiles)
    assert [(task.task_id, task.task_display_name, type(task).__name__) for task in dag.tasks] == [
        ("prepare", "prepare", "SubprocessStepOperator"),
        ("aAb", "a@b", "KubernetesJobStepOperator"),
        ("c.d", "c.d", "KubernetesJobStepOperator"),
    ]
    assert [task.upstream_task_ids for task in dag.tasks] == [set(), {"prepare"}, {"aAb"}]
    assert dag.dag_display_name == "default: prepare → a@b → c.d"
    assert dag.tags == {"nemo", "default"}
    placed = dag.get_task("aAb")
    assert (placed.queue, placed.pool, placed.priority_weight) == ("gpus", "big-gpus", 7)
    assert (placed.retries, placed.retry_delay, tuple(placed.template_fields)) == (5, timedelta(seconds=1), ())


def test_without_a_usable_configuration_the_steps_will_say_so() -> None:
    dag = shapes.build_dag(SHAPE, settings.Workspace("default"), None)
    assert {type(task).__name__ for task in dag.tasks} == {"JobStepOperator"}


def test_access_control_is_copied() -> None:
    workspace = settings.Workspace("default", {"Researchers": {"DAG Runs": ["can_read"]}})
    dag = shapes.build_dag(SHAPE, workspace, None)
    assert dag.access_control is not None and "Researchers" in dag.access_control


def test_every_workspace_and_every_shape_has_a_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = shape_of("gone", [("x1", "cpu", "default")])
    dags = defined(monkeypatch, Variables(stored(SHAPE, foreign)))
    assert set(dags) == {"nemo-sweep", "nemo.default", "nemo.research", SHAPE.dag_id}


def test_a_broken_shape_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    other = shape_of("default", [("other", "cpu", "default")])
    values = stored(SHAPE, other) | {"nemo.shape.nemo.default.x.00000000": "{bad"}
    values[f"nemo.shape.{other.dag_id}"] = SHAPE.dumps()
    found = set(defined(monkeypatch, Variables(values)))
    assert found == {"nemo-sweep", "nemo.default", "nemo.research", SHAPE.dag_id}


def test_a_task_process_builds_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    other = shape_of("default", [("other", "cpu", "default")])
    variables = Variables(stored(SHAPE, other))
    assert set(defined(monkeypatch, variables, SHAPE.dag_id)) == {SHAPE.dag_id}
    assert variables.read == [f"nemo.shape.{SHAPE.dag_id}"]


def test_the_sweep_has_a_task_for_every_queue_of_a_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(SWEPT)
    sweep = defined_with(monkeypatch, file)
    assert (sweep.max_active_runs, sweep.catchup, sweep.tags, sweep.schedule) == (
        1,
        False,
        {"nemo-sweep"},
        timedelta(seconds=60),
    )
    tasks = {task.queue: task for task in sweep.tasks}
    assert set(tasks) == {"default", "Räume 1"}
    assert tasks["Räume 1"].profiles == ["subprocess/far"]
    assert tasks["Räume 1"].task_id.startswith("sweep-")
    assert set(tasks["default"].profiles) >= {"subprocess/default", "gpu/big"}
    assert [task.chores for task in (tasks["default"], tasks["Räume 1"])] == [True, False]
    assert all(task.retries == 0 and not task.upstream_task_ids for task in sweep.tasks)


def test_the_sweep_without_a_schedule_and_without_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs: {no_such_key: 1}")
    monkeypatch.setenv("AIRFLOW__NEMO__SWEEP_SECONDS", "0")
    sweep = defined_with(monkeypatch, file)
    assert sweep.schedule is None
    assert [(task.task_id, task.profiles) for task in sweep.tasks] == [("sweep", [])]


@pytest.mark.parametrize("seconds", ["1m", "", "99999999999999999999"])
def test_a_time_between_sweeps_that_is_none_takes_no_dag_away(monkeypatch: pytest.MonkeyPatch, seconds: str) -> None:
    monkeypatch.setenv("AIRFLOW__NEMO__SWEEP_SECONDS", seconds)
    dags = defined(monkeypatch, Variables(stored(SHAPE)))
    assert set(dags) == {"nemo-sweep", "nemo.default", "nemo.research", SHAPE.dag_id}
    assert dags["nemo-sweep"].schedule == timedelta(seconds=60)


def test_a_sweep_that_cannot_be_defined_takes_no_dag_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> DAG:
        raise RuntimeError("no")

    monkeypatch.setattr("nemo_airflow_provider.dags.sweep.sweep_dag", broken)
    assert set(defined(monkeypatch, Variables(stored(SHAPE)))) == {"nemo.default", "nemo.research", SHAPE.dag_id}


def test_the_sweep_goes_where_the_steps_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each host that keeps workloads is swept through the executor and queue of its profiles."""
    placed = {"plain": "{}", "far": "{executor: CeleryExecutor}", "gpu1": "{executor: CeleryExecutor, queue: gpu1}"}
    placed |= {"gpu2": "{executor: CeleryExecutor, queue: gpu1}", "own": "{queue: gpu1}"}
    placed |= {"gone": "{executor: NoSuchExecutor, queue: gpu2}"}
    entries = [
        f"    - {{provider: subprocess, profile: {name}, backend: subprocess, config: {{airflow: {airflow}}}}}"
        for name, airflow in placed.items()
    ]
    file = tmp_path / "jobs.yaml"
    file.write_text("\n".join(["platform: {runtime: none}", "jobs:", "  executors:", *entries]))
    known = {"LocalExecutor", "CeleryExecutor"}
    monkeypatch.setattr("nemo_airflow_provider.operators.placement._is_configured", lambda executor: executor in known)
    sweep = defined_with(monkeypatch, file)
    found = {(task.executor, task.queue): task for task in sweep.tasks}
    swept = {place: [name.removeprefix("subprocess/") for name in task.profiles] for place, task in found.items()}
    assert "plain" in swept.pop((None, "default"))
    assert swept == {
        ("CeleryExecutor", "default"): ["far"],
        ("CeleryExecutor", "gpu1"): ["gpu1", "gpu2"],
        (None, "gpu1"): ["own"],
        (None, "gpu2"): ["gone"],
    }
    assert [place for place, task in found.items() if task.chores] == [(None, "default")]
    assert found[None, "default"].task_id == "sweep"
    assert {task.pool for task in sweep.tasks} == {"default_pool"}


def defined_with(monkeypatch: pytest.MonkeyPatch, file: Path) -> DAG:
    """The sweep's DAG, as a task of it sees it."""
    monkeypatch.setattr(shapes, "Variable", Variables({}))
    monkeypatch.setenv("AIRFLOW__NEMO__CONFIG_FILE", str(file))
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "nemo-sweep")
    namespace: dict[str, Any] = {}
    shapes.define_dags(namespace)
    (dag,) = namespace.values()
    assert isinstance(dag, DAG)
    return dag


@pytest.mark.parametrize("wanted", ["some_other_dag", "nemo.default.unknown.00000000"])
def test_dags_that_are_not_ours_are_not_built(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    assert defined(monkeypatch, Variables({}), wanted) == {}


def test_an_executor_that_airflow_does_not_have_is_said_by_the_step(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(PROFILES.replace("queue: gpus", "executor: Typo"))
    profiles = load_profiles(file, environ={}, probe=None)
    dag = shapes.build_dag(SHAPE, settings.Workspace("default"), profiles)
    # What Airflow does to a DAG before it takes it; it raises on an unknown executor.
    dagbag._validate_executor_fields(dag)
    assert dag.get_task("prepare").source.refusal is None
    assert dag.get_task("aAb").source.refusal == (
        "Execution profile 'gpu/big' asks for Airflow's executor 'Typo', which [core] executor does not list."
    )


@pytest.mark.parametrize("rules", ['["x"]', '{"R": "can_read"}', '{"R": {"DAGs": "can_read"}}', '{"R": [1]}'])
def test_access_control_of_the_wrong_form_is_refused(monkeypatch: pytest.MonkeyPatch, rules: str) -> None:
    monkeypatch.setenv("AIRFLOW__NEMO__WORKSPACES", f'[{{"name": "default", "access_control": {rules}}}]')
    with pytest.raises(ConfigError, match="access_control of 'default' must map roles"):
        settings.workspaces()


def test_the_examples_of_options_are_good(monkeypatch: pytest.MonkeyPatch) -> None:
    options = get_provider_info()["config"]["nemo"]["options"]
    monkeypatch.setenv("AIRFLOW__NEMO__WORKSPACES", options["workspaces"]["example"])
    assert set(settings.workspaces()) == {"default", "research"}


def test_a_wrong_option_leaves_no_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "Variable", Variables({}))
    monkeypatch.setenv("AIRFLOW__NEMO__WORKSPACES", "not json")
    namespace: dict[str, Any] = {}
    shapes.define_dags(namespace)
    assert namespace == {}


def test_shapes_come_back_and_changed_ones_are_refused() -> None:
    assert loads(SHAPE.dag_id, SHAPE.dumps()) == SHAPE
    for text in ('{"workspace": "default", "steps": []}', "{}", '{"workspace": "default", "steps": [1]}'):
        with pytest.raises(ValueError, match="the stored shape of"):
            loads(SHAPE.dag_id, text)


def test_a_long_shape_has_a_short_title() -> None:
    shape = shape_of("default", [(f"step-{number}", "cpu", "default") for number in range(100)])
    assert len(shape.display_name) == 200


def test_the_bundle_holds_the_one_dag_file() -> None:
    bundle = JobsDagBundle(name="nemo-jobs")
    assert [path.name for path in bundle.path.glob("*.py")] == ["nemo_jobs.py"]
    text = (bundle.path / "nemo_jobs.py").read_text().lower()
    # Airflow's safe mode passes over files that lack either word.
    assert "dag" in text and "airflow" in text
