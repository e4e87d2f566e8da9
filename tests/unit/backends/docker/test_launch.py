"""What becomes of a step whose container the engine refuses, by the engine's own words."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from nemo_airflow_provider.backends.base import Site, Workload
from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.engine import DockerEngine
from nemo_airflow_provider.backends.docker.gpus import GpuPool
from nemo_airflow_provider.backends.docker.images import Images
from nemo_airflow_provider.backends.docker.launch import Launch
from nemo_airflow_provider.backends.docker.tickets import Line
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.spec import StepSpec
from tests.unit.backends.docker.make import KEY, config, workload

NAME = names.engine_name(KEY)


def refusal(status: int, text: str) -> Exception:
    from docker.errors import APIError, NotFound
    from requests import Response

    answer = Response()
    answer.status_code = status
    error: Exception = (NotFound if status == 404 else APIError)(text, answer, text)
    return error


@dataclass
class Engine:
    """An engine that has every image, and refuses what it is told to."""

    create: Exception | None = None
    start_: Exception | None = None
    made: dict[str, dict[str, Any]] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    copied: list[bytes] = field(default_factory=list)

    def inspect_image(self, _: str) -> dict[str, Any]:
        return {}

    def inspect_volume(self, name: str) -> dict[str, Any]:
        raise refusal(404, f"get {name}: no such volume")

    def inspect_container(self, name: str) -> dict[str, Any]:
        if name not in self.made:
            raise refusal(404, f"No such container: {name}")
        return self.made[name]

    def create_container_from_config(self, body: dict[str, Any], name: str) -> dict[str, Any]:
        if self.create:
            raise self.create
        if name in self.made:
            raise refusal(409, f'Conflict. The container name "/{name}" is already in use')
        state = {"Status": "created", "Running": False}
        self.made[name] = {"Id": name * 2, "Name": f"/{name}", "Config": body, "State": state}
        return {"Id": name * 2}

    def containers(self, **_: object) -> list[dict[str, Any]]:
        listed = [(each["Id"], each["Config"]["Labels"], each["State"]["Status"]) for each in self.made.values()]
        return [{"Id": name, "Created": 1, "Labels": own, "State": state} for name, own, state in listed]

    def put_archive(self, _: str, path: str, archive: bytes) -> bool:
        assert path == "/"
        self.copied.append(archive)
        return True

    def start(self, container: str) -> None:
        if self.start_:
            raise self.start_
        self.started.append(container)

    def remove_container(self, container: str, **_: object) -> None:
        self.made = {name: each for name, each in self.made.items() if each["Id"] != container}


@dataclass
class Bench:
    engine: Engine
    launch: Launch

    def begin(self, what: Workload | None = None) -> Any:
        return self.launch.begin(cast("Any", self.engine), what or workload())

    def refused(self, kind: type[BackendError], what: Workload | None = None) -> str:
        with pytest.raises(BackendError) as told:
            self.begin(what)
        assert type(told.value) is kind
        return str(told.value)


def bench_of(place: Path, **keys: Any) -> Bench:
    site = Site(lambda *_: Access())
    pool = GpuPool(Line("host/E", place), lambda: ())
    return Bench(Engine(), Launch(config(**keys), site, DockerEngine(Access), Images(Access(), 600), pool))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_of(tmp_path)


def test_a_container_that_starts(bench: Bench) -> None:
    expected = {"container_id": (NAME * 2)[:12], "container_name": NAME, "image": "busybox:1"}
    assert bench.begin() == expected
    assert bench.engine.started == [NAME * 2]


def test_a_container_that_runs_is_adopted(bench: Bench) -> None:
    bench.begin()
    bench.engine.made[NAME]["State"] = {"Status": "running", "Running": True}
    bench.begin()
    assert len(bench.engine.started) == 1


def test_a_container_whose_gpus_another_has_is_not_started_when_it_is_adopted(bench: Bench) -> None:
    for name, state in ((NAME, "created"), ("other", "running")):
        body = {"Labels": labels.of_workload(workload(), "docker", (0,))}
        bench.engine.create_container_from_config(body, name)
        bench.engine.made[name]["State"]["Status"] = state
    assert bench.refused(CapacityError) == (
        "Another worker of this engine was given the same GPUs first; asking again."
    )
    assert (bench.engine.started, list(bench.engine.made)) == ([], ["other"])


FOR_GOOD = [
    (400, 'OCI runtime create failed: runc: exec: "nope": executable file not found in $PATH: unknown', ""),
    (
        500,
        'could not select device driver "nvidia" with capabilities: [[gpu]]',
        ". Install NVIDIA's container toolkit on the engine's host, and start the engine again.",
    ),
    (500, "unable to find user nobody2: no matching entries in passwd file", ""),
    (
        404,
        "network training not found",
        ". Make it with `docker network create`, or name another in networking.job_container_network of the step's "
        "profile.",
    ),
    (400, "invalid mount config for type \"volume\": invalid mount path: 'data' mount path must be absolute", ""),
    (
        400,
        "Minimum memory limit allowed is 6MB",
        ". Raise limits.memory of the step's resources, or of its profile.",
    ),
    *(
        (
            500,
            words,
            ". The image has a file where a path variable of the step, or a volume of its profile, wants a directory.",
        )
        for words in (
            "source …/bin/busybox is not directory",
            "mount …/jobs/w/r.k:…/bin/busybox, flags: 0x5000: not a directory",
        )
    ),
]
LAYER = f"/var/lib/docker/overlay2/{'0f' * 32}/merged"
PATHS = [
    (f"source {LAYER}/bin/busybox is not directory", "source …/bin/busybox is not directory"),
    (f"lstat {LAYER}/bin/sh/x: not a directory", "lstat …/bin/sh/x: not a directory"),
    (
        f'error mounting "/data/docker/volumes/{"0f" * 32}/_data" to rootfs at "/proc/x": "{LAYER}/proc/x" cannot',
        'error mounting "…" to rootfs at "/proc/x": "…/proc/x" cannot',
    ),
    ('mounting "/d/volumes/nemo-jobs-storage/_data/jobs/w/r.k" to "/x"', 'mounting "…/jobs/w/r.k" to "/x"'),
    ('exec: "/bin/volumes/x": no such file or directory', 'exec: "/bin/volumes/x": no such file or directory'),
]
LATER = [
    (500, "write /var/lib/docker/containers/x/.tmp-config.v2.json: no space left on device"),
    (500, "failed to create shim: fork/exec /usr/bin/runc: cannot allocate memory: unknown"),
    (500, "fork/exec /usr/bin/containerd-shim-runc-v2: resource temporarily unavailable: unknown"),
    (500, "mkdir /var/lib/docker/overlay2/x: disk quota exceeded"),
]


@pytest.mark.parametrize(("status", "words", "remedy"), FOR_GOOD)
def test_what_no_further_try_mends(bench: Bench, status: int, words: str, remedy: str) -> None:
    bench.engine.create = refusal(status, words)
    assert bench.refused(StartError) == f"Failed to create container: {words}{remedy}"
    bench.engine.create, bench.engine.start_ = None, refusal(status, words)
    assert bench.refused(StartError) == f"Failed to start container: {words}{remedy}"
    assert bench.engine.made == {}


@pytest.mark.parametrize(("words", "shown"), PATHS)
def test_paths_of_the_host_are_not_shown(bench: Bench, words: str, shown: str) -> None:
    bench.engine.create = refusal(400, words)
    with pytest.raises(StartError) as told:
        bench.begin()
    assert str(told.value).startswith(f"Failed to create container: {shown}")
    assert told.value.detail == shown


@pytest.mark.parametrize(("status", "words"), LATER)
def test_what_there_is_no_room_for_now(bench: Bench, status: int, words: str) -> None:
    bench.engine.create = refusal(status, words)
    assert bench.refused(CapacityError) == f"Failed to create container: {words}"
    bench.engine.create, bench.engine.start_ = None, refusal(status, words)
    for _ in range(5):
        assert bench.refused(CapacityError) == f"Failed to start container: {words}"
    bench.engine.start_ = None
    bench.begin()


def test_what_the_engine_cannot_do_three_times_it_cannot_do(bench: Bench) -> None:
    bench.engine.start_ = refusal(500, "context deadline exceeded")
    sentence = "Failed to start container: context deadline exceeded"
    assert [bench.refused(kind) for kind in (BackendError, BackendError, StartError)] == [sentence] * 3
    assert bench.engine.made == {}


def test_a_container_that_was_removed_before_it_was_started(bench: Bench) -> None:
    bench.engine.start_ = refusal(404, f"No such container: {NAME}")
    assert bench.refused(BackendError) == "The container was removed before it was started."


def test_an_image_that_was_removed_meanwhile_is_pulled_again(bench: Bench) -> None:
    bench.engine.create = refusal(404, "No such image: busybox:1")
    assert bench.refused(CapacityError) == "Image busybox:1 was removed from the engine; pulling it again."


def test_a_name_that_somebody_else_has(bench: Bench) -> None:
    bench.engine.create_container_from_config({"Labels": {}}, NAME)
    assert bench.refused(StartError) == (
        f"Failed to create container: its name {NAME} belongs to a container that is not ours"
    )
    assert NAME in bench.engine.made


def test_a_volume_that_is_not_there(tmp_path: Path) -> None:
    mount = {"volume_name": "data", "mount_path": "/data"}
    bench = bench_of(tmp_path, storage={"additional_volume_mounts": [mount]})
    assert bench.refused(StartError) == (
        "Additional volume data not found: make it with `docker volume create`, or set allow_create_volume where the "
        "step's profile names it."
    )
    for allowed in ({**mount, "allow_create_volume": True}, {**mount, "kind": "tmpfs"}):
        bench_of(tmp_path, storage={"additional_volume_mounts": [allowed]}).begin()


def test_job_storage_that_the_profile_does_not_have(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, storage={"volume_name": ""})
    asked = workload(step={"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/keep"})
    assert bench.refused(StartError, asked) == (
        f"Step '{KEY.step}' asks for persistent job storage; its profile has storage.volume_name ''."
    )


def test_a_step_that_is_a_process(bench: Bench) -> None:
    step = StepSpec.model_validate({"name": "fit", "executor": {"provider": "subprocess", "command": ["true"]}})
    assert bench.refused(StartError, replace(workload(), step=step)) == (
        "Step 'fit' is a process of a host; a Docker profile runs images only."
    )


@pytest.mark.parametrize(
    ("asked", "mounted"), [({}, "/var/run/scratch/task"), ({"NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH": "/mine"}, "/mine")]
)
def test_where_a_step_has_its_own_storage(bench: Bench, asked: dict[str, str], mounted: str) -> None:
    bench.begin(workload(step=asked))
    body = bench.engine.made[NAME]["Config"]
    assert body["HostConfig"]["Mounts"][0]["Target"] == mounted
    assert f"NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH={mounted}" in body["Env"]


@pytest.mark.parametrize(
    ("asked", "mounted", "file"),
    [
        ({}, "/var/run/scratch/config", "/var/run/scratch/config/job_step_config.json"),
        ({"NEMO_JOB_STEP_CONFIG_STORAGE_PATH": "/cfg"}, "/cfg", "/cfg/job_step_config.json"),
        ({"NEMO_JOB_STEP_CONFIG_FILE_PATH": "/etc/app.json"}, "/var/run/scratch/config", "/etc/app.json"),
    ],
)
def test_the_configuration_is_where_the_step_is_told(
    bench: Bench, asked: dict[str, str], mounted: str, file: str
) -> None:
    bench.begin(workload(step=asked))
    body = bench.engine.made[NAME]["Config"]
    assert body["HostConfig"]["Mounts"][1]["Target"] == mounted
    assert f"NEMO_JOB_STEP_CONFIG_STORAGE_PATH={mounted}" in body["Env"]
    assert f"NEMO_JOB_STEP_CONFIG_FILE_PATH={file}" in body["Env"]
    with tarfile.open(fileobj=io.BytesIO(bench.engine.copied[-1])) as archive:
        written = archive.extractfile(file.lstrip("/"))
        assert written is not None and written.read() == b"{}"


def test_a_path_that_cannot_be_is_refused_before_the_engine_is_asked(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, storage={"additional_volume_mounts": [{"volume_name": "data", "mount_path": "/data"}]})
    asked = workload(step={"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/proc/x"})
    assert bench.refused(StartError, asked) == (
        "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH is '/proc/x': /proc is the engine's own."
    )
