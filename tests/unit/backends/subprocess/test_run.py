"""Commands from their start to their end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nemo_airflow_provider.backends.base import Environment, Phase, Workload
from nemo_airflow_provider.backends.subprocess.control import CONTROL
from nemo_airflow_provider.backends.subprocess.launch import refused, start_error
from nemo_airflow_provider.backends.subprocess.layout import run_directory
from nemo_airflow_provider.errors import BackendError, CapacityError, StartError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey, is_name, run_id_of
from nemo_airflow_provider.model.spec import StepSpec
from tests.unit.backends.subprocess.host import Host, key, lives
from tests.waiting import wait_until


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_exit_code(host: Host, code: int) -> None:
    host.shell(f"exit {code}")
    seen = host.end()
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, code, None)
    assert seen.details["exit_code"] == code


@pytest.mark.parametrize("number", [6, 9, 11, 15])
def test_a_signal_is_a_negative_code(host: Host, number: int) -> None:
    host.shell(f"kill -{number} $$")
    assert host.end().exit_code == -number


def test_details(host: Host) -> None:
    details = host.shell("sleep 0.2")
    work = host.work()
    assert details == {
        "subprocess_work_dir": str(work),
        "subprocess_persistent_storage_path": str(host.root / "default" / "my-job.firstrun" / "job-storage"),
        "pid": details["pid"],
        "pgid": details["pid"],
    }
    running = host.backend.observe(key())
    assert (running.phase, running.details) == (Phase.RUNNING, details)
    host.end()


def test_start_and_end_are_noted_in_microseconds(host: Host) -> None:
    before = time.time_ns() // 1000
    host.shell("sleep 0.1")
    host.end()
    record = host.record("exit.json")
    assert before <= record["started"] < record["ended"] - 100_000 < time.time_ns() // 1000


def test_directories_are_private(host: Host) -> None:
    host.shell("true", secrets={"TOKEN": "s"})
    host.end()
    modes = {
        path: stat.S_IMODE(path.stat().st_mode) for path in [host.root, *host.root.rglob("*")] if not path.is_symlink()
    }
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if not path.is_dir()} == {0o600}


def test_starts_in_its_directory_with_nothing_to_read_and_no_stray_descriptors(host: Host) -> None:
    host.python("import os; print(os.getcwd(), os.read(0, 9), sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    host.end()
    assert host.output().decode().split(maxsplit=1) == [str(host.work()), "b'' [0, 1, 2]\n"]


def test_leads_its_own_session_with_plain_signals(host: Host) -> None:
    details = host.python(
        "import os, signal; print(os.getsid(0) == os.getpgid(0) == os.getpid(), os.getpid(),"
        "[s for s in signal.valid_signals() if s not in (2, 13, 25) and signal.getsignal(s) == signal.SIG_IGN],"
        "signal.pthread_sigmask(0, ()))"
    )
    host.end()
    assert host.output().decode().split() == ["True", str(details["pid"]), "[]", "set()"]


def test_an_ignored_signal_of_the_worker_is_not_inherited(host: Host) -> None:
    host.shell("grep SigIgn /proc/self/status")
    host.end()
    # Signals 32 and 33 belong to the C library, which ignores 32 in what it spawns and lets nobody change that.
    ignored = int(host.output().split()[1], 16) & ~(0b11 << 31)
    assert ignored == 0


def test_config_file(host: Host) -> None:
    host.shell('cat "$NEMO_JOB_STEP_CONFIG_FILE_PATH"; ls "$NEMO_JOB_STEP_CONFIG_STORAGE_PATH"', config={"é": [1]})
    host.end()
    assert host.output().decode() == json.dumps({"é": [1]}) + "job_step_config.json\n"


def test_job_storage_is_shared_by_the_steps_of_a_job(host: Host) -> None:
    host.shell("echo model > $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/weights")
    host.end()
    second = key("evaluate", generation=1)
    host.shell("cat $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/weights; ls $NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH", second)
    host.end(second)
    assert host.output(second) == b"model\n"


def test_the_environment_is_exactly_what_was_composed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_SECRET", "worker only")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    awkward = "two\nlines ü \udcff ="
    host.run(
        ["/usr/bin/env", "-0"],
        step={"AWKWARD": awkward, "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/mnt"},
        secrets={"TOKEN": "s3cret"},
    )
    host.end()
    items = dict(item.split(b"=", 1) for item in host.output().split(b"\0") if item)
    work = host.work()
    assert items == {
        b"PATH": b"/usr/bin:/bin",
        b"NEMO_JOB_ID": b"my-job",
        b"NEMO_JOB_STEP_CONFIG_FILE_PATH": bytes(work / "config" / "job_step_config.json"),
        b"NEMO_JOB_STEP_CONFIG_STORAGE_PATH": bytes(work / "config"),
        b"NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH": bytes(work / "scratch"),
        b"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": bytes(work.parents[1] / "job-storage"),
        b"AWKWARD": os.fsencode(awkward),
        b"TOKEN": b"s3cret",
    }


@pytest.mark.parametrize("name", ["job-storage", "run.json", "workload.json", "config", "scratch", "a..b@c+d"])
def test_every_legal_name_can_run(host: Host, name: str) -> None:
    assert is_name(name)
    of = WorkloadKey("default", run_id_of(name), "firstrun", name, 0, 0)
    host.shell("echo it > $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/kept; echo done", of)
    assert host.end(of).exit_code == 0
    assert host.output(of) == b"done\n"
    assert host.backend.find(of) == [of]
    host.backend.cleanup(of)
    assert sorted(path.name for path in host.job(of).iterdir()) == [".installation", "job-storage"]
    assert (host.job(of) / "job-storage" / "kept").exists()


def test_secrets_stand_in_no_file_and_no_other_process(host: Host) -> None:
    details = host.shell("sleep 5", secrets={"TOKEN": "s3cret-value"})
    supervisor = host.supervisor()
    for name in ("environ", "cmdline"):
        assert b"s3cret-value" not in Path(f"/proc/{supervisor}/{name}").read_bytes()
    assert b"s3cret-value" not in Path(f"/proc/{details['pid']}/cmdline").read_bytes()
    for path in host.root.rglob("*"):
        if path.is_file():
            assert b"s3cret-value" not in path.read_bytes()
    host.backend.stop(key(), 0)
    host.end()


def test_what_it_leaves_behind_is_stopped(host: Host) -> None:
    host.shell("sleep 60 & setsid sleep 60 & (setsid setsid sleep 60 &) ; exit 4")
    begin = time.monotonic()
    assert host.end().exit_code == 4
    assert time.monotonic() - begin < 50  # and not 60
    assert host.processes() == []


def test_what_it_leaves_behind_is_killed_when_it_does_not_listen(tmp_path: Path) -> None:
    host = Host.make(tmp_path / "work", graceful_shutdown_timeout_seconds=1)
    host.shell("setsid sh -c 'trap \"\" TERM; echo here; while :; do sleep 0.1; done' & sleep 0.3")
    assert host.end().exit_code == 0
    assert host.output() == b"here\n"
    assert host.processes() == []


def test_leftovers_may_say_goodbye(host: Host) -> None:
    host.shell("""sh -c 'trap "echo bye; exit" TERM; echo here; while :; do sleep 0.01; done' & sleep 0.3""")
    host.end()
    assert host.output(stream="stdout") == b"here\nbye\n"


@pytest.mark.parametrize("command", ["no-such-program", "./no-such-program", "/no/such/program"])
def test_program_not_found(host: Host, command: str) -> None:
    with pytest.raises(StartError) as caught:
        host.run([command, "x"])
    assert str(caught.value) == f"Failed to start subprocess: executable not found: {command}"
    assert caught.value.detail == f"[Errno 2] No such file or directory: '{command}'"
    assert not host.work().parent.exists()
    assert host.backend.observe(key()).phase is Phase.ABSENT
    assert host.backend.find(key()) == []


def test_program_that_cannot_be_run(host: Host, tmp_path: Path) -> None:
    for content, mode, reason in [
        (b"#!/bin/sh\n", 0o644, "permission denied"),
        (b"\0\1\2\3", 0o755, "not in an executable format"),
        (b"#!/no/such/interpreter\n", 0o755, "the interpreter that its first line names was not found"),
    ]:
        program = tmp_path / f"program-{mode}-{len(content)}"
        program.write_bytes(content)
        program.chmod(mode)
        with pytest.raises(StartError, match=f"Failed to start subprocess: {reason}: {program}"):
            host.run([str(program)])
        assert not host.work().exists()
    with pytest.raises(StartError, match="permission denied"):
        host.run([str(tmp_path)])


def test_arguments_that_cannot_be_passed_on(host: Host) -> None:
    with pytest.raises(StartError, match="arguments or environment hold what the system cannot pass on: /bin/true"):
        host.run(["/bin/true", "a\0b"])
    with pytest.raises(StartError, match="arguments and environment are too long"):
        host.run(["/bin/true", "x" * 4_000_000])


def test_a_start_that_failed_may_be_tried_again(host: Host) -> None:
    with pytest.raises(StartError):
        host.run(["/no/such/program"])
    host.shell("echo now")
    host.end()
    assert host.output() == b"now\n"


def test_names_of_programs(host: Host, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "my-tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho my tool $1\n")
    tool.chmod(0o755)
    host.run(["my-tool", "a b"], step={"PATH": f"/nowhere:{tool.parent}:/usr/bin:/bin"})
    host.end()
    assert host.output() == b"my tool a b\n"
    host.run(["python3", "-c", "import sys; print(sys.executable, sys.prefix)"], key(start=1))
    host.end(key(start=1))
    assert host.output(key(start=1)).decode().split() == [sys.executable, sys.prefix]


def test_no_room_is_waited_for_and_other_refusals_are_told(tmp_path: Path) -> None:
    assert isinstance(refused(OSError(errno.ENOSPC, "No space left on device"), tmp_path), CapacityError)
    assert not isinstance(refused(OSError(errno.EROFS, "Read-only file system"), tmp_path), CapacityError)
    assert "input/output error" in str(start_error(errno.EIO, "Input/output error", "x", tmp_path))


def test_working_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match=r"cannot use .*/file"):
        Host.make(tmp_path / "file").shell("true")


def test_working_directory_that_others_may_write_to(tmp_path: Path) -> None:
    workspace = tmp_path / "work" / "default"
    workspace.mkdir(parents=True)
    workspace.chmod(0o777)
    with pytest.raises(BackendError, match="or others may write to its directory default"):
        Host.make(tmp_path / "work").shell("true")


def test_a_run_id_that_is_no_file_name(host: Host) -> None:
    for run_id in ("../x", "a/b", "", ".", ".hidden", "x" * 255):
        of = replace(key(), run_id=run_id)
        with pytest.raises(BackendError, match="cannot be the name of a directory"):
            host.shell("true", of)


@pytest.mark.parametrize("run_id", ["a", "a.b", "a.b~2", "aDb", "a.b.c~10"])
def test_the_last_dot_parts_run_id_and_key(run_id: str) -> None:
    run_key = names.run_key("nemo.default.x", run_id, datetime(2025, 1, 1, tzinfo=UTC))
    assert run_directory(run_id, run_key).rpartition(".") == (run_id, ".", run_key)


def test_the_longest_names_can_run(host: Host) -> None:
    longest = "x" * (255 - 1 - 24)  # Airflow has room for 250 characters, our longest run id has 73
    of = replace(key(), run_id=longest, run_key="z" * 24)
    host.shell("exit 3", of)
    assert host.end(of).exit_code == 3


def test_a_container_step_is_refused(host: Host) -> None:
    step = StepSpec.model_validate({"name": "train", "executor": {"provider": "cpu", "container": {}}})
    with pytest.raises(StartError, match="asks for a container"):
        host.backend.submit(Workload(key(), step, "attempt", Environment({})))


def test_a_directory_made_unreachable_stops_the_workload(host: Host) -> None:
    details = host.shell("sleep 60")
    supervisor = host.supervisor()
    shutil.rmtree(host.root / "default")
    wait_until(lambda: not lives(details["pid"]) and not lives(supervisor))


@pytest.mark.parametrize(
    "names",
    [
        "echo mine | tee output started exit.json alive stop workload.json",
        "mkdir output started exit.json alive stop workload.json",
        "ln -s /etc/passwd output; ln -s nowhere started; mkfifo stop; touch exit.json alive; mkdir workload.json",
    ],
)
def test_every_name_in_the_current_directory_is_the_commands_own(host: Host, names: str) -> None:
    script = f"echo first; {names}; ls | sort; sleep 1.2; rm -rf *; ls; echo last >&2; exit 3"
    details = host.shell(script)  # longer than the supervisor needs to see that it was forgotten
    seen = host.end()
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 3, None)
    assert seen.details == {**details, "exit_code": 3}
    assert seen.details["subprocess_work_dir"] == str(host.work())
    said = host.output().decode().split()
    wanted = ["alive", "config", "exit.json", "output", "scratch", "started", "stop", "workload.json"]
    assert (said[0], said[-9:]) == ("first", [*wanted, "last"])
    assert host.backend.find(key()) == [key()]
    assert host.shell("echo again") == seen.details
    host.backend.cleanup(key())
    assert not host.work().exists()


def test_a_stop_reaches_a_command_that_made_these_names(host: Host) -> None:
    host.shell("touch stop alive exit.json; mkdir started; trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done")
    wait_until(lambda: host.backend.observe(key()).phase is Phase.RUNNING and (host.work() / "started").exists())
    wait_until(lambda: (host.control() / "output").stat().st_size)
    host.backend.stop(key(), 5)
    seen = host.end()
    assert (seen.exit_code, seen.stopped) == (5, "asked")


def test_nothing_of_ours_is_seen_in_the_current_directory(host: Host) -> None:
    host.shell("ls; ls -A | wc -l")
    host.end()
    assert host.output().split() == [b"config", b"scratch", b"3"]
    assert sorted(path.name for path in host.work().iterdir()) == [CONTROL, "config", "scratch"]


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf .nemo",
        "mv .nemo moved",
        "mv .nemo moved; mkdir .nemo",
        "mv .nemo moved; ln -s moved .nemo",
        "mv .nemo scratch/; touch .nemo",
    ],
)
def test_without_its_control_directory_a_workload_is_stopped_and_absent(host: Host, script: str) -> None:
    said = host.root / "said"
    host.shell(f"{script}; trap 'echo told > {said}; exit 5' TERM; while :; do sleep 0.01; done")
    wait_until(lambda: not host.processes())
    assert said.read_text() == "told\n"
    for record in host.work().rglob("exit.json"):  # where it was only moved
        assert json.loads(record.read_text())["stopped"] == "orphaned"
    assert host.backend.observe(key()).phase is Phase.ABSENT
    assert host.backend.find(key()) == []
    assert host.chunks() == []
    host.backend.stop(key(), 0)
    host.backend.cleanup(key())
    assert not host.work().exists()


def test_a_control_directory_that_is_a_link_is_not_written_through(host: Host, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    host.work().mkdir(parents=True, mode=0o700)
    host.control().symlink_to(outside)
    with pytest.raises(BackendError, match="cannot use"):
        host.shell("true")
    assert list(outside.iterdir()) == []
    host.backend.cleanup(key())
    assert outside.exists() and not host.work().exists()


def test_files_removed_by_the_workload_itself(host: Host) -> None:
    host.shell("rm -rf .nemo/* ; trap 'exit 5' TERM; while :; do sleep 0.01; done")
    wait_until(lambda: (host.control() / "exit.json").exists())
    assert (host.record("exit.json")["stopped"], host.record("exit.json")["exit_code"]) == ("orphaned", 5)


def test_a_workload_that_blocks_its_own_notes_is_lost_not_hung(host: Host) -> None:
    host.shell("mkdir .nemo/exit.json; exit 0")
    seen = host.end()
    assert seen.phase is Phase.LOST


LOCK_UP = "find . -depth -exec chmod 0 {} + 2>/dev/null"


@pytest.mark.parametrize(
    "change",
    ["chmod -R 755 .", "chmod -R 777 .", "chmod -R a+x .", "chmod -R a-w .", LOCK_UP],
)
def test_a_command_may_change_all_modes(host: Host, change: str) -> None:
    changed = host.root / "changed"
    script = f"echo first; {change}; touch {changed}; sleep 1.2; echo last"  # the supervisor looks once a second
    details = host.shell(script)
    wait_until(changed.exists)
    assert host.backend.observe(key()).phase is Phase.RUNNING
    assert host.backend.find(key()) == [key()]
    seen = host.end()
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, 0, None)
    assert seen.details == {**details, "exit_code": 0}
    assert host.output() == b"first\nlast\n"
    host.backend.cleanup(key())
    assert not host.work().exists()


@pytest.mark.parametrize("change", ["chmod -R a-w .", LOCK_UP])
def test_a_command_that_changed_all_modes_notes_its_end_and_can_be_stopped(host: Host, change: str) -> None:
    host.shell(f"{change}; exit 3")
    assert host.end().exit_code == 3
    other, changed = key(start=1), host.root / "changed"
    host.shell(f"trap 'exit 5' TERM; {change}; touch {changed}; while :; do sleep 0.01; done", other)
    wait_until(changed.exists)
    host.backend.stop(other, 5)
    seen = host.end(other)
    assert (seen.exit_code, seen.stopped) == (5, "asked")


def test_a_command_that_unpacks_its_own_directory_over_itself_is_to_blame(host: Host) -> None:
    host.shell("tar cf ../it .; tar xf ../it; sleep 60")
    seen = wait_until(lambda: found if (found := host.backend.observe(key())).phase is not Phase.RUNNING else None)
    assert (seen.phase, seen.fault, seen.error) == (Phase.LOST, "user", {"fault": "user"})
    assert "replaced files of its supervisor" in (seen.message or "")
    wait_until(lambda: not host.processes())
