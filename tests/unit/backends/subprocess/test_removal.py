"""What is removed, and what never is."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.backends.subprocess.removal import remove
from tests.unit.backends.subprocess.host import Host, key, lives
from tests.waiting import wait_until


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that no removal may touch."""
    directory = tmp_path / "outside"
    (directory / key().task).mkdir(parents=True)
    (directory / key().task / "precious").write_text("x")
    return directory


def removed(directory: Path) -> bool:
    parent = os.open(directory.parent, os.O_RDONLY)
    try:
        remove(parent, directory.name)
    finally:
        os.close(parent)
    return not directory.exists()


def test_links_are_removed_and_not_followed(tmp_path: Path, outside: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "link").symlink_to(outside)
    (tree / "a" / "link").symlink_to(outside / key().task / "precious")
    (tree / "a" / "up").symlink_to("..")
    (tree / "dangling").symlink_to("/no/such")
    assert removed(tree)
    assert (outside / key().task / "precious").read_text() == "x"


def test_a_link_is_no_directory_to_remove(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        removed(tmp_path / "link")
    assert (outside / key().task / "precious").exists()


def test_depth_is_no_hiding_place(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    at = os.open(tree, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d" * 50, dir_fd=at)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=at)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        os.close(at)
        at = below
    os.close(at)
    (tree / ".moved-0").mkdir()
    assert removed(tree)


def test_modes_are_no_hiding_place(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (tree / "a" / "b" / "file").write_text("")
    for directory in (tree / "a" / "b", tree / "a", tree):
        directory.chmod(0)
    assert removed(tree)


def test_something_gone_is_removed_already(tmp_path: Path) -> None:
    assert removed(tmp_path / "nothing")


def test_cleanup_removes_an_ended_workload_only(host: Host) -> None:
    other = key(start=1)
    host.shell("echo x > $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/kept; sleep 0.1")
    host.shell("sleep 60", other)
    host.end()
    host.backend.cleanup(key())
    host.backend.cleanup(key())
    host.backend.cleanup(other)
    assert not host.work().exists()
    assert host.backend.observe(key()).phase is Phase.ABSENT
    assert host.backend.observe(other).phase is Phase.RUNNING
    assert host.backend.find(key()) == [other]
    host.backend.stop(other, 0)
    host.end(other)
    host.backend.cleanup(other)
    assert sorted(path.name for path in host.job().iterdir()) == [".installation", "job-storage"]
    assert (host.job() / "job-storage" / "kept").exists()


def test_cleanup_of_a_lost_workload_kills_what_is_left(host: Host) -> None:
    host.shell("sleep 60 & wait")
    wait_until(lambda: len(host.processes()) == 3)
    host.kill_supervisor()
    host.backend.cleanup(key())
    assert not host.work().exists()
    assert host.processes() == []


def test_cleanup_through_a_planted_link(host: Host, outside: Path) -> None:
    host.shell("true")
    host.end()
    step = host.work().parent
    step.rename(step.with_name("away"))
    step.symlink_to(outside)
    host.backend.cleanup(key())
    assert (outside / key().task / "precious").exists()
    assert host.backend.remove_job("default", "my-job", key().run_key)
    assert (outside / key().task / "precious").exists()
    assert not step.parent.exists()


def test_a_job_with_a_step_that_removed_its_control_directory_is_removed(host: Host) -> None:
    host.shell("rm -rf .nemo; sleep 60")
    wait_until(lambda: not host.control().exists())
    assert host.backend.remove_job("default", "my-job", key().run_key)
    assert list((host.root / "default").iterdir()) == []
    wait_until(lambda: not host.processes())


def test_find_knows_every_start_of_the_step_and_nothing_else(host: Host) -> None:
    mine = [key(), key(start=1), key(generation=2)]
    for of in [*mine, key("evaluate")]:
        host.shell("true", of)
        host.end(of)
    (host.work().parent / "task-000000000000").mkdir()
    (host.work().parent / "task-111111111111").write_text("a file")
    assert sorted(host.backend.find(key(generation=9))) == sorted(mine)
    assert host.backend.find(key(run_key="another")) == []
    assert host.backend.find(key("nothing")) == []


def test_remove_job(host: Host) -> None:
    host.shell("echo x > $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/model; sleep 60")
    assert not host.backend.remove_job("default", "my-job", key().run_key)
    assert host.backend.observe(key()).phase is Phase.RUNNING
    assert host.backend.remove_job("default", "my-job", "another")
    assert host.work().exists()
    host.backend.stop(key(), 0)
    host.end()
    assert host.backend.remove_job("default", "my-job", key().run_key)
    assert list((host.root / "default").iterdir()) == []
    assert host.backend.remove_job("default", "my-job", key().run_key)
    assert host.backend.remove_job("elsewhere", "my-job", key().run_key)


@pytest.mark.parametrize("path", ["", "train"])
def test_a_job_whose_directories_were_replaced_by_links_is_removed(host: Host, outside: Path, path: str) -> None:
    host.shell("true")
    host.end()
    (host.job() / path).rename(host.root / "moved")
    (host.job() / path).symlink_to(outside)
    assert host.backend.remove_job("default", "my-job", key().run_key)
    assert (outside / key().task / "precious").exists()
    assert list((host.root / "default").iterdir()) == []


def test_a_removal_that_was_killed_is_finished_by_the_next(host: Host) -> None:
    host.shell("true")
    host.end()
    host.job().rename(host.job().with_name(f".removed-{host.job().name}"))
    host.shell("exit 3")  # the same run again: a start that lost against the removal
    host.end()
    assert host.backend.remove_job("default", "my-job", key().run_key)
    assert list((host.root / "default").iterdir()) == []


def test_runs_of_one_run_id_share_nothing(host: Host) -> None:
    """Another DAG of the workspace may have a run of that id, and so may the same DAG once the first is deleted."""
    other = key(run_key="secondrun")
    details = host.shell("echo old > $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH/model; echo up; sleep 60")
    wait_until(lambda: b"up" in host.output_file())
    host.shell("ls $NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH; exit 3", other)
    assert (host.end(other).exit_code, host.output(other)) == (3, b"")
    assert host.backend.remove_job("default", "my-job", other.run_key)
    assert (host.job() / "job-storage" / "model").exists()
    assert lives(details["pid"])
    assert host.backend.observe(key()).phase is Phase.RUNNING
    assert [path.name for path in (host.root / "default").iterdir()] == ["my-job.firstrun"]
    host.backend.stop(key(), 0)
    host.end()


def test_starts_while_their_job_is_being_removed(host: Host) -> None:
    """Each runs in a directory that others find, with its storage, or has not begun when the directory goes."""
    over = Event()

    def remove_again_and_again() -> int:
        return sum(host.backend.remove_job("default", "my-job", key().run_key) for _ in iter(over.is_set, True))

    with ThreadPoolExecutor(2) as pool:
        removers = [pool.submit(remove_again_and_again) for _ in range(2)]
        try:
            for start in range(20):
                of = key(start=start)
                host.shell("exec sleep 60", of)
                assert host.backend.observe(of).phase is Phase.RUNNING
                assert (host.job() / "job-storage").is_dir()
                host.backend.stop(of, 0)
                wait_until(lambda of=of: host.backend.observe(of).phase in (Phase.ENDED, Phase.ABSENT, Phase.PENDING))
        finally:
            over.set()
        assert all(remover.result() for remover in removers)
    assert host.backend.remove_job("default", "my-job", key().run_key)
    assert list((host.root / "default").iterdir()) == []
