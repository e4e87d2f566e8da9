"""Where a step may have its storage and its configuration, and where not."""

from __future__ import annotations

import pytest

from nemo_airflow_provider.backends.container.places import Places, places_of
from nemo_airflow_provider.errors import StartError

FILE, DIRECTORY = "NEMO_JOB_STEP_CONFIG_FILE_PATH", "NEMO_JOB_STEP_CONFIG_STORAGE_PATH"
SCRATCH, STORAGE = "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH", "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"
ADDITIONAL = "mount_path of storage.additional_volume_mounts of the step's profile"


def found(step: dict[str, str], *mounts: str) -> Places:
    return places_of(step, mounts, ["/sbin/docker-init"])


def told(step: dict[str, str], *mounts: str) -> str:
    with pytest.raises(StartError) as error:
        found(step, *mounts)
    return str(error.value)


def test_where_everything_is_unless_a_step_says_so() -> None:
    default = Places()
    assert found({}) == found({SCRATCH: "", DIRECTORY: "", FILE: ""}) == default
    assert default.variables() == {
        FILE: "/var/run/scratch/config/job_step_config.json",
        DIRECTORY: "/var/run/scratch/config",
        SCRATCH: "/var/run/scratch/task",
    }


def test_a_step_may_have_everything_elsewhere() -> None:
    step = {SCRATCH: "/mine", DIRECTORY: "/cfg/", FILE: "/etc/app/config.json", STORAGE: "/kept"}
    assert found(step) == Places("/mine", "/cfg/", "/etc/app/config.json", "/kept")
    assert found({DIRECTORY: "/cfg"}).config_file == "/cfg/job_step_config.json"


@pytest.mark.parametrize(
    "path",
    [
        "/a",
        "/a b",
        "/ü",
        "/a:b",
        "/a/b/",
        "/a//b",
        "/a/./b",
        "/..a/b..",
        "/devices",
        "/process",
        "/etc/x",
        "/dev/shm/x",
    ],
)
@pytest.mark.parametrize("variable", [SCRATCH, DIRECTORY, STORAGE])
def test_paths_of_every_sort(variable: str, path: str) -> None:
    found({variable: path})


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("data", "it must be an absolute path"),
        (" /data", "it must be an absolute path"),
        ("C:\\data", "it must be an absolute path"),
        ("/", "it must not be the root of the container"),
        ("//", "it must not be the root of the container"),
        ("/./", "it must not be the root of the container"),
        ("/a/..", "it must not be the root of the container"),
        ("/a/../b", "it must not hold '..'"),
        ("/a\n", "it must not hold a newline or another character that cannot be printed"),
        ("/a\0b", "it must not hold a newline or another character that cannot be printed"),
        ("/proc", "/proc is the engine's own"),
        ("/proc/x/y", "/proc is the engine's own"),
        ("//proc", "/proc is the engine's own"),
        ("/./sys/", "/sys is the engine's own"),
        ("/dev/shm", "/dev is the engine's own"),
        ("/etc/hosts", "/etc/hosts is the engine's own"),
        ("/sbin", "the engine's own /sbin/docker-init must be found there"),
    ],
)
@pytest.mark.parametrize("variable", [SCRATCH, DIRECTORY, FILE, STORAGE])
def test_paths_that_cannot_be(variable: str, path: str, rule: str) -> None:
    assert told({variable: path}) == f"{variable} is {path!r}: {rule}."


def test_job_storage_that_is_asked_for_nowhere() -> None:
    assert told({STORAGE: ""}) == f"{STORAGE} is '': it must be an absolute path."


@pytest.mark.parametrize("path", ["/" + "x" * 256, "/" + "ü" * 128, "/" + "/".join(["y" * 200] * 16)])
def test_paths_that_no_system_has(path: str) -> None:
    assert told({SCRATCH: path}) == (
        f"{SCRATCH} is {path[:40] + '…'!r}: a name in it has at most 255 bytes, and all of it 3072."
    )
    found({SCRATCH: "/" + "/".join(["x" * 255] * 2)})


@pytest.mark.parametrize(
    ("step", "mounts", "sentence"),
    [
        ({DIRECTORY: "/a", SCRATCH: "/a"}, [], f"{DIRECTORY} is '/a': that is the {SCRATCH} too."),
        ({SCRATCH: "/a", STORAGE: "//a/"}, [], f"{STORAGE} is '//a/': that is the {SCRATCH} too."),
        (
            {STORAGE: "/var/run/scratch/config"},
            [],
            f"{STORAGE} is '/var/run/scratch/config': that is the {DIRECTORY} too.",
        ),
        ({STORAGE: "/data"}, ["/data/"], f"{ADDITIONAL} is '/data/': that is the {STORAGE} too."),
        ({}, ["/data", "/data"], f"{ADDITIONAL} is '/data': that is the {ADDITIONAL} too."),
        ({}, ["data"], f"{ADDITIONAL} is 'data': it must be an absolute path."),
    ],
)
def test_one_place_for_one_thing(step: dict[str, str], mounts: list[str], sentence: str) -> None:
    assert told(step, *mounts) == sentence


def test_one_place_may_lie_in_another() -> None:
    found({SCRATCH: "/kept/scratch", STORAGE: "/kept"}, "/kept/models", "/kept/models/big")
    found({DIRECTORY: "/kept/config", STORAGE: "/kept"}, "/dev/shm")


def test_a_configuration_replaces_nothing_that_others_have() -> None:
    kept = {STORAGE: "/kept", FILE: "/kept/config.json"}
    assert told(kept) == (
        f"{FILE} is '/kept/config.json': the step's configuration is not put into /kept, the {STORAGE}."
    )
    assert told({FILE: "/data/x/config.json"}, "/data") == (
        f"{FILE} is '/data/x/config.json': the step's configuration is not put into /data, the {ADDITIONAL}."
    )
    assert found({FILE: "/data/own/config.json", SCRATCH: "/data/own"}, "/data").config_file == "/data/own/config.json"


@pytest.mark.parametrize("file", ["/data", "/data//.", "/data/models"])
def test_a_configuration_is_not_put_where_a_mount_is(file: str) -> None:
    """The engine would remove all that is there first."""
    assert told({FILE: file}, "/data/models") == (
        f"{FILE} is {file!r}: it is a file, and {ADDITIONAL} is /data/models."
    )


def test_a_configuration_is_no_directory() -> None:
    assert told({FILE: "/cfg/"}) == f"{FILE} is '/cfg/': it is a file, and must not end in '/'."
