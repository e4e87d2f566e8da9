"""Names: reversible, injective, and accepted by Airflow itself."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.model import names

job_names = st.from_regex(names.NAME_PATTERN, fullmatch=True).filter(names.is_name)
shapes = st.lists(st.tuples(job_names, st.sampled_from(["cpu", "gpu"]), st.text(min_size=1)), min_size=1, max_size=20)
moments = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001

RESERVED = ("scheduled__", "backfill__", "operator_triggered__", "asset_triggered__", "asset_materialization__")


@pytest.mark.parametrize("name", ["valid-step-name", "step1", "has_underscore", "a.b+c@d", "a" * 63, "ab"])
def test_legal_names(name: str) -> None:
    assert names.is_name(name)


@pytest.mark.parametrize(
    "name",
    ["a", "123", "UPPER", "camelCase", "has spaces", "-x", "x-", "a--b", "", "a" * 64, "ab\n", "é1", "a" * 63 + "\n"],
)
def test_illegal_names(name: str) -> None:
    assert not names.is_name(name)
    assert not names.is_workspace(f"{name}\n")


@given(job_names)
def test_codec_is_reversible(name: str) -> None:
    assert names.decode_name(names.encode_name(name)) == name


@given(job_names, job_names)
def test_codec_is_injective(one: str, other: str) -> None:
    assert (names.encode_name(one) == names.encode_name(other)) == (one == other)


@given(job_names | st.sampled_from([f"{prefix}x" for prefix in RESERVED]), st.integers(1, 999_999_999))
def test_run_ids_are_accepted_by_airflow(name: str, ordinal: int) -> None:
    run_id = names.run_id_of(name, ordinal)
    assert re.match(r"^[A-Za-z0-9_.~:+-]+$", run_id)
    assert ".." not in run_id
    assert not run_id.startswith(RESERVED)
    assert names.job_name_of(run_id) == name


@given(job_names)
def test_task_ids_are_accepted_by_airflow(name: str) -> None:
    task_id = names.task_id_of(name)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,250}", task_id)
    assert names.step_name_of(task_id) == name


@pytest.mark.parametrize(
    "run_id",
    [
        "manual__2026-12-01T00:00:00+00:00",
        "scheduled__x",
        "job~1",
        "job~02",
        "job~1000000000",
        "job~x",
        "job~2\n",
        "job\n",
        "Foo",
        "a",
    ],
)
def test_foreign_run_ids_are_no_jobs(run_id: str) -> None:
    assert names.job_name_of(run_id) is None


@pytest.mark.parametrize("ordinal", [-1, 0, 1_000_000_000])
def test_no_run_id_is_made_that_is_no_job(ordinal: int) -> None:
    with pytest.raises(ValueError, match="ordinal"):
        names.run_id_of("job", ordinal)


@given(shapes)
def test_dag_ids_are_accepted_and_name_their_workspace(steps: list[tuple[str, str, str]]) -> None:
    dag_id = names.shape_dag_id("team-a", steps)
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", dag_id)
    assert ".." not in dag_id
    assert names.workspace_of_dag(dag_id) == "team-a"


@given(shapes, shapes)
def test_shapes_are_told_apart(one: list[tuple[str, str, str]], other: list[tuple[str, str, str]]) -> None:
    assert (names.shape_dag_id("default", one) == names.shape_dag_id("default", other)) == (one == other)


def test_order_profile_and_workspace_make_another_shape() -> None:
    steps = [("one", "cpu", "default"), ("two", "cpu", "default")]
    others = [steps[::-1], [("one", "cpu", "x"), steps[1]], [("one", "gpu", "default"), steps[1]]]
    assert len({names.shape_dag_id("default", each) for each in [steps, *others]}) == 4
    assert names.shape_dag_id("default", steps) != names.shape_dag_id("other", steps)


def test_longest_shape_fits() -> None:
    steps = [(f"s{index}" + "x" * 60, "gpu_distributed", "default") for index in range(50)]
    assert len(names.shape_dag_id("w" * 63, steps)) <= 200


@given(job_names, moments)
def test_run_keys_give_their_moment_back(name: str, moment: datetime) -> None:
    key = names.run_key("nemo.default.x.00000000", name, moment)
    assert names.run_after_of(key) == moment
    assert names.run_key_of_job_id(names.job_id(key)) == key


def test_a_run_made_again_is_another_run() -> None:
    moment = datetime(2026, 12, 1, tzinfo=UTC)
    later = moment + timedelta(microseconds=1)
    assert names.run_key("d", "r", moment) != names.run_key("d", "r", later)
    assert names.run_key("d", "r", moment) != names.run_key("d", "s", moment)
    with pytest.raises(ValueError, match="zone"):
        names.run_key("d", "r", datetime(2026, 12, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    "identifier",
    ["platform-job-3x", "platform-job-", "job", "platform-job-0OIl0OIl0OIl", "platform-job-XpyX5CBn5oargaaeB\n"],
)
def test_names_that_look_like_ids_are_no_ids(identifier: str) -> None:
    assert names.run_key_of_job_id(identifier) is None


def test_attempt_numbers_come_back() -> None:
    assert names.attempt_number_of("abc", names.attempt_id("abc", 12)) == 12
    for other in (names.attempt_id("abd", 1), "platform-job-attempt-abc-01", "platform-job-attempt-abc-", "current"):
        assert names.attempt_number_of("abc", other) is None


def test_tasks_of_starts_and_generations_differ() -> None:
    keys = [names.WorkloadKey("w", "r", "k", "s", generation, start) for generation in (0, 1) for start in (0, 1)]
    assert len({key.task for key in keys}) == 4
    assert all(re.fullmatch(r"task-[0-9a-f]{12}", key.task) for key in keys)
    assert names.WorkloadKey("w", "aPb~2", "k", "s", 0, 0).job == "a+b"


ENGINE_NAME = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"


@settings(max_examples=50)
@given(job_names, job_names, st.integers(0, 5), st.integers(0, 5))
def test_engines_accept_the_name_of_a_workload(job: str, step: str, generation: int, start: int) -> None:
    key = names.WorkloadKey("w", names.run_id_of(job), "k", step, generation, start)
    name = names.engine_name(key)
    assert re.fullmatch(ENGINE_NAME, name)
    assert "--" not in name
    assert name.endswith(key.task.removeprefix("task"))


@settings(max_examples=50)
@given(job_names)
def test_engines_accept_the_name_of_a_storage(job: str) -> None:
    assert re.fullmatch(ENGINE_NAME, names.storage_name(job, "k"))


def test_engine_names_are_readable() -> None:
    key = names.WorkloadKey("w", "aPb", "k", "fit_it.1", 0, 0)
    assert names.engine_name(key) == f"a-b-fit-it-1-{key.task.removeprefix('task-')}"
    assert re.fullmatch(r"storage-a-b-[0-9a-f]{12}", names.storage_name("a+b", "k"))


def test_engine_names_are_told_apart() -> None:
    """Other workspaces and reruns are other run keys; `a-b` and `c` are not `a` and `b-c`."""
    keys = [
        names.WorkloadKey("w", run_id, key, step, generation, start)
        for run_id, step in (("a-b", "c"), ("a", "b-c"), ("aAb", "c"), ("aPb", "c"))
        for key in ("k", "l")
        for generation in (0, 1)
        for start in (0, 1)
    ]
    # Of one run key there is one job only.
    engine_names = {(key.run_key, names.engine_name(key)) for key in keys}
    assert len({name for _, name in engine_names}) == len(engine_names)
    assert len({names.storage_name(job, key) for job in ("a+b", "a@b") for key in ("k", "l")}) == 2
    long = [names.WorkloadKey("w", "a" * 63, "k", "s" * 62 + end, 0, 0) for end in "xy"]
    assert len({names.engine_name(key) for key in long}) == 2
    assert all(len(names.engine_name(key)) == 63 for key in long)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("train", "train"),
        ("a@b+c", "aAbPc"),
        ("a..b", "a..b"),
        ("gpu.default", "gpu.default"),
        ("platform-job-attempt-3xY-0", "platform-job-attempt-3xY-0"),
    ],
)
def test_what_may_be_the_value_of_a_label(text: str, value: str) -> None:
    assert names.label_value(text) == value


@pytest.mark.parametrize("text", ["a.", "a_", "x" * 64, "gpu/a100", "@" * 40, "run~2", "ü", "~"])
def test_what_may_not_be_is_shortened_and_told_apart(text: str) -> None:
    found = names.label_value(text)
    assert re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]{0,61})?[A-Za-z0-9]", found)
    assert found != names.label_value(text + "x")


@given(job_names, job_names)
def test_labels_of_names_are_told_apart(first: str, second: str) -> None:
    assert (names.label_value(first) == names.label_value(second)) == (first == second)
