"""What of an installation is kept under a working directory, and that nobody else's is touched."""

from __future__ import annotations

import socket
from pathlib import Path

from nemo_airflow_provider.backends.powers import HeldJob, SupportsSweep
from tests.unit.backends.subprocess.host import INSTALLATION, Host, key
from tests.waiting import wait_until


def held(host: Host, installation: str = INSTALLATION) -> list[HeldJob]:
    return sorted(host.backend.held_jobs(installation), key=lambda job: job.run_key)


def test_it_is_a_power(host: Host) -> None:
    assert isinstance(host.backend, SupportsSweep)
    assert held(host) == []


def test_every_job_with_its_workloads(host: Host) -> None:
    keys = [key(), key(generation=1), key("other"), key(run_key="secondrun")]
    for of in keys:
        host.shell("true", of)
        host.end(of)
    first, second = held(host)
    assert (first.workspace, first.run_id, first.run_key) == ("default", "my-job", "firstrun")
    assert sorted(first.workloads) == sorted(keys[:3])
    assert second.workloads == (keys[3],)


def test_storage_alone_is_held_too(host: Host) -> None:
    host.shell("true")
    host.end()
    host.backend.cleanup(key())
    assert held(host) == [HeldJob("default", "my-job", "firstrun")]
    assert host.backend.remove_job("default", "my-job", "firstrun")
    assert held(host) == []


def test_of_another_installation_nothing(host: Host) -> None:
    host.shell("true")
    host.end()
    assert held(host, "fedcba9876543210") == []
    (host.job() / ".installation").unlink()
    assert held(host) == []


def test_a_workload_that_calls_itself_another_is_not_listed(host: Host) -> None:
    host.shell("true")
    host.end()
    path = host.control() / "workload.json"
    for wrong in (path.read_text().replace("firstrun", "secondrun"), path.read_text().replace("default", "other"), "{"):
        path.write_text(wrong)
        assert held(host) == [HeldJob("default", "my-job", "firstrun")]


def test_a_removal_that_was_killed_is_finished(host: Host) -> None:
    host.shell("true")
    host.end()
    aside = host.job().rename(host.job().with_name(".removed-" + host.job().name))
    (aside / ".installation").unlink()
    assert held(host) == []
    assert not aside.exists()


def test_what_is_no_directory_of_ours_is_passed_over(host: Host, tmp_path: Path) -> None:
    host.shell("true")
    host.end()
    elsewhere = tmp_path / "elsewhere" / "my-job.firstrun"
    elsewhere.mkdir(parents=True)
    (elsewhere / ".installation").symlink_to(INSTALLATION)
    (host.root / "linked").symlink_to(elsewhere.parent)
    (host.root / "file").write_text("")
    (host.root / "default" / "linked.firstrun").symlink_to(elsewhere)
    assert [job.run_id for job in held(host)] == ["my-job"]


def test_an_engine_is_a_host_whatever_its_boot(host: Host) -> None:
    assert host.backend.speaks_for(host.backend.identity())
    assert host.backend.speaks_for(f"{socket.gethostname()}:an-earlier-boot")
    assert not host.backend.speaks_for("elsewhere:0123")


def test_a_stop_ends_a_workload_that_is_frozen(host: Host) -> None:
    """Nobody may be there to thaw what a parked step has frozen."""
    host.shell("kill -STOP $$")
    pid = host.record("started")["pid"]
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    host.backend.stop(key(), 0.2)
    host.end()
