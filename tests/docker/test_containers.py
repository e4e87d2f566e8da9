"""What a container gets, and what is said of its end."""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import replace

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.errors import StartError
from nemo_airflow_provider.model import names
from tests.contract.test_backend import end, text
from tests.docker.dock import Dock, shell
from tests.stack import docker

MIB = 1024**2
#: Cgroups of version 1, then 2.
CPU = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us || cat /sys/fs/cgroup/cpu.max"
MEMORY = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max"
LIMITED = f"{{ {CPU}; }} 2>/dev/null; echo; {{ {MEMORY}; }} 2>/dev/null"


@pytest.mark.parametrize(("cpu", "cpus"), [("500m", 0.5), ("2.5", 2.5), (None, 0.25)])
def test_the_kernel_limits_cpu_and_memory_step_over_profile(dock: Dock, cpu: str | None, cpus: float) -> None:
    """More CPUs than the host has are no limit, and no error."""
    backend = dock.backend(resources={"limits": {"cpu": "250m", "memory": "32Mi"}})
    limits = {"cpu": cpu} if cpu else {"memory": "48Mi"}
    written = dock.output(backend, dock.task(executor={**shell(LIMITED), "resources": {"limits": limits}}))
    quota, period, memory = written.split()
    assert int(quota) / int(period) == cpus
    assert int(memory) == (32 if cpu else 48) * MIB
    host = dock.inspect()["HostConfig"]
    assert host["MemorySwap"] == host["Memory"] == int(memory)


def test_a_container_is_as_the_profile_says(dock: Dock) -> None:
    script = """
        grep NoNewPrivs /proc/self/status; cat /proc/1/comm; df -k /dev/shm | tail -n 1; grep ' /fast ' /proc/mounts
        sh -c 'sleep 0.05 & exec true'; echo "void=$NVIDIA_VISIBLE_DEVICES profile=$OF_PROFILE"
        until [ $(ls -d /proc/[0-9]* | wc -l) -le 4 ]; do :; done; grep -l Z.*zombie /proc/[0-9]*/status; true
    """
    mounts = [{"volume_name": "any", "mount_path": "/fast", "kind": "tmpfs", "options": {"SizeBytes": 5 * MIB}}]
    backend = dock.backend(
        resources={"shm_size": "96Mi"},
        storage={"additional_volume_mounts": mounts},
        env={"OF_PROFILE": "yes", "NVIDIA_VISIBLE_DEVICES": "all"},
    )
    written = dock.output(backend, dock.workload(script)).splitlines()
    assert written[0].split() == ["NoNewPrivs:", "1"]
    assert written[1] == "docker-init"
    assert written[2].split()[1] == str(96 * 1024)
    assert written[3].split()[:3] == ["tmpfs", "/fast", "tmpfs"]
    assert f"size={5 * 1024}k" in written[3]
    assert written[4] == "void=void profile=yes"
    assert written[5:] == [], "zombies"


def test_words_and_environment_arrive_byte_by_byte(dock: Dock) -> None:
    words = ("two words", "$HOME", "", "a\nb", "ü'\"\\", "*")
    values = {
        "NEWLINES": "\n first\n\nlast\n",
        "QUOTES": "'\"`\\ $HOME ${X} $(id) %s",
        "EQUALS": "a=b==",
        "UTF8": "Größe 𝛑 \u2028",
        "EMPTY": "",
        "SPACES": "  \t ",
        "with.dots-and-dashes": "kept",
    }
    script = 'for each in "$@"; do echo "$(printf "%s" "$each" | base64)"; done; base64 -w 0 /proc/$$/environ; :'
    entrypoint = ("/bin/sh", "-c", script, "name")
    found = dock.output(dock.backend(), dock.task(*entrypoint, command=words, step=values)).splitlines()
    assert [base64.b64decode(line).decode() for line in found[: len(words)]] == list(words)
    seen = dict(item.split("=", 1) for item in base64.b64decode(found[-1]).decode().split("\0") if item)
    assert {name: seen[name] for name in values} == values


def test_the_longest_words_that_the_kernel_takes(dock: Dock) -> None:
    most = 128 * 1024 - 1
    long = "x" * (most - len("LONG="))
    backend = dock.backend()
    script = 'echo "${#LONG} ${#1}"'
    fits = dock.task("/bin/sh", "-c", script, "name", "y" * most, step={"LONG": long})
    assert dock.output(backend, fits) == f"{len(long)} {most}\n"
    for wrong in (dock.task("true", step={"LONG": long + "x"}), dock.task("true", "y" * (most + 1))):
        with pytest.raises(StartError, match="is longer than 128 KiB"):
            backend.submit(replace(wrong, key=dock.key("evaluate")))


def test_an_image_without_entrypoint_in_the_step_runs_its_own(dock: Dock) -> None:
    image = "nemo-test/own-words:1"
    docker.make_image(dock.client, image, 'ENTRYPOINT ["/bin/echo", "own"]', 'CMD ["command"]')
    backend = dock.backend()
    assert dock.output(backend, dock.task(image=image)) == "own command\n"
    given = dock.task(image=image, command=("given",), key=dock.key("evaluate"))
    assert dock.output(backend, given) == "own given\n"


def test_the_steps_configuration_arrives_byte_by_byte_without_a_second_container(dock: Dock) -> None:
    config = {"text": "ü\n\u2028\"'", "nested": {"list": [1, 2.5, None, True]}, "big": "x" * 300_000}
    backend = dock.backend()
    begin = int(time.time())
    script = 'base64 -w 0 "$NEMO_JOB_STEP_CONFIG_FILE_PATH"'
    written = dock.output(backend, dock.workload(script, config=config))
    assert base64.b64decode(written) == json.dumps(config).encode()
    created = dock.client.events(
        since=begin,
        until=int(time.time()) + 1,
        filters={
            "label": f"{labels.PREFIX}installation_id={dock.installation}",
            "type": "container",
            "event": "create",
        },
    )
    assert len(list(created)) == 1


def test_an_image_of_any_user_has_its_directories(dock: Dock) -> None:
    image = "nemo-test/somebody:1"
    docker.make_image(dock.client, image, "USER 1000:1000")
    script = """set -e; id -u; cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"; cd "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH"
        echo task > file; cat file; cd "$NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"; echo job > file; cat file"""
    step = {"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/kept"}
    written = dock.output(dock.backend(), dock.task("/bin/sh", "-c", script, image=image, step=step))
    assert written == "1000\n{}task\njob\n"


@pytest.mark.parametrize(
    "step",
    [
        {"NEMO_JOB_STEP_CONFIG_FILE_PATH": "/not/there yet/ü.json"},
        {"NEMO_JOB_STEP_CONFIG_STORAGE_PATH": "/its:own"},
        {"NEMO_JOB_STEP_CONFIG_STORAGE_PATH": "/kept/own", "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/kept"},
        {
            "NEMO_JOB_STEP_CONFIG_FILE_PATH": "/scratch/config.json",
            "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH": "/scratch",
        },
    ],
)
def test_a_step_finds_its_configuration_where_it_says(dock: Dock, step: dict[str, str]) -> None:
    image = "nemo-test/somebody:1"
    docker.make_image(dock.client, image, "USER 1000:1000")
    script = 'cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"; echo x > "$NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH/x"'
    task = dock.task("/bin/sh", "-c", script, image=image, step=step, config={"a": 1})
    assert dock.output(dock.backend(), task) == '{"a": 1}'


def test_a_step_that_has_its_configuration_elsewhere_is_stopped_as_any(dock: Dock) -> None:
    """What says so is in its own volume, and in none that others share."""
    backend = dock.backend()
    paths = {"NEMO_JOB_STEP_CONFIG_STORAGE_PATH": "/own", "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/var/run/scratch"}
    step = dock.task("sleep", "600", step={**paths, "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH": "/dev/shm/x"})
    backend.submit(step)
    backend.stop(step.key, 0)
    assert end(dock, backend, step.key).stopped == "asked"
    other = dock.task("true", key=replace(step.key, step="other"), step=paths)
    dock.output(backend, other)
    assert backend.observe(other.key).stopped is None


@pytest.mark.parametrize("path", ["/bin/sh", "/bin/sh/x"])
def test_storage_where_the_image_has_a_file_is_told_without_the_hosts_paths(dock: Dock, path: str) -> None:
    with pytest.raises(StartError) as told:
        dock.backend().submit(dock.workload("true", step={"NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH": path}))
    assert re.match("Failed to create container: .*(is not directory|not a directory)", str(told.value))
    assert "overlay" not in str(told.value) and "overlay" not in str(told.value.detail)


def test_memory_that_is_used_up_is_told_with_its_limit(dock: Dock) -> None:
    backend = dock.backend(resources={"limits": {"memory": "16Mi"}})
    backend.submit(dock.task("/bin/tail", "/dev/zero"))
    seen = end(dock, backend)
    assert seen.message == "Job exited with non-zero code 137: the kernel killed it at its memory limit of 16Mi"
    assert (seen.exit_code, seen.error, seen.fault) == (137, {"reason": "OOMKilled"}, "user")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("/bin/sh", "-c", "kill -SEGV $$"), 139, "it was ended by SIGSEGV, check logs for details."),
        (("/nothing/here", "x"), 127, "its command was not found in the image, check logs for details."),
        (("/etc/passwd",), 126, "its command cannot be executed, check logs for details."),
        (("/bin/sh", "-c", "exit 9"), 9, ""),
    ],
)
def test_an_end_is_one_sentence(dock: Dock, words: tuple[str, ...], code: int, sentence: str) -> None:
    backend = dock.backend()
    backend.submit(dock.task(*words))
    seen = end(dock, backend)
    assert (seen.phase, seen.exit_code, seen.fault) == (Phase.ENDED, code, "user")
    expected = f": {sentence}" if sentence else ", check logs for details."
    assert seen.message == f"Job exited with non-zero code {code}{expected}"


def test_what_the_engine_refuses_to_start_is_told_and_leaves_nothing(dock: Dock) -> None:
    image = "nemo-test/nobody:1"
    docker.make_image(dock.client, image, "USER nobody-at-all")
    backend = dock.backend()
    with pytest.raises(StartError, match="Failed to (create|start) container: .*unable to find user nobody-at-all"):
        backend.submit(dock.task("/bin/true", image=image))
    assert backend.observe(dock.key()).phase is Phase.ABSENT
    assert (dock.containers(), dock.volumes()) == ([], [])


def test_a_name_that_somebody_else_has_is_left_to_him(dock: Dock) -> None:
    name = names.engine_name(dock.key())
    foreign = dock.client.create_container(dock.image, "true", name=name)["Id"]
    try:
        backend = dock.backend()
        with pytest.raises(StartError, match=f"its name {name} belongs to a container that is not ours"):
            backend.submit(dock.workload("true"))
        for verb in (lambda: backend.stop(dock.key(), 0), lambda: backend.cleanup(dock.key())):
            verb()
        assert dock.client.inspect_container(foreign)["State"]["Status"] == "created"
        assert dock.volumes() == []
    finally:
        dock.client.remove_container(foreign, v=True)
    assert text(backend, dock.key()) == b""
