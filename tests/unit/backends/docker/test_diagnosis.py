from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Observation, Phase, StopReason
from nemo_airflow_provider.backends.docker.diagnosis import began_at, interrupted, observed
from nemo_airflow_provider.errors import Fault

DETAILS = {"container_id": "0123456789ab", "container_name": "train-fit-abc"}
HEAD = "Job exited with non-zero code"
LOGS = "check logs for details."
BEGAN, NEVER = "2026-12-01T10:00:00.123456789Z", "0001-01-01T00:00:00Z"


def seen(
    status: str, code: int = 0, *, stopped: StopReason | None = None, memory: int | None = None, **more: Any
) -> Observation:
    state = {
        "Status": status,
        "Running": status in ("running", "paused", "restarting"),
        "Paused": status == "paused",
        "Restarting": status == "restarting",
        "OOMKilled": False,
        "Dead": status == "dead",
        "ExitCode": code,
        "Error": "",
        "StartedAt": NEVER if status == "created" else BEGAN,
        **more,
    }
    container = {
        "Id": "0123456789abcdef" * 4,
        "Name": "/train-fit-abc",
        "State": state,
        "HostConfig": {"Memory": memory or 0},
    }
    return observed(container, stopped)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("created", Observation(Phase.PENDING, details=DETAILS)),
        ("running", Observation(Phase.RUNNING, details=DETAILS)),
        ("paused", Observation(Phase.RUNNING, details=DETAILS, frozen=True)),
        ("restarting", Observation(Phase.RUNNING, details=DETAILS)),
        ("removing", Observation(Phase.ENDED, exit_code=0, details=DETAILS)),
        ("exited", Observation(Phase.ENDED, exit_code=0, details=DETAILS)),
        ("dead", Observation(Phase.ENDED, exit_code=0, details=DETAILS)),
    ],
)
def test_every_state_of_the_engine(status: str, expected: Observation) -> None:
    assert seen(status) == expected


@pytest.mark.parametrize("status", ["removing", "dead"])
def test_a_container_that_goes_without_having_run_is_no_success(status: str) -> None:
    assert seen(status, StartedAt=NEVER) == Observation(Phase.ABSENT, details=DETAILS)


def test_a_container_that_could_not_be_started_waits() -> None:
    found = seen("created", 127, Error="OCI runtime create failed")
    assert found == Observation(Phase.PENDING, details=DETAILS)


@pytest.mark.parametrize(
    ("code", "state", "message", "error", "fault"),
    [
        (1, {}, f"{HEAD} 1, {LOGS}", None, "user"),
        (3, {}, f"{HEAD} 3, {LOGS}", None, "user"),
        (126, {}, f"{HEAD} 126: its command cannot be executed, {LOGS}", None, "user"),
        (127, {}, f"{HEAD} 127: its command was not found in the image, {LOGS}", None, "user"),
        (128, {}, f"{HEAD} 128, {LOGS}", None, "user"),
        (134, {}, f"{HEAD} 134: it was ended by SIGABRT, {LOGS}", {"signal": "SIGABRT"}, "user"),
        (137, {}, f"{HEAD} 137: it was ended by SIGKILL, {LOGS}", {"signal": "SIGKILL"}, "user"),
        (139, {}, f"{HEAD} 139: it was ended by SIGSEGV, {LOGS}", {"signal": "SIGSEGV"}, "user"),
        (143, {}, f"{HEAD} 143: it was ended by SIGTERM, {LOGS}", {"signal": "SIGTERM"}, "user"),
        (255, {}, f"{HEAD} 255, {LOGS}", None, "user"),
        (
            137,
            {"OOMKilled": True, "memory": 64 * 2**20},
            f"{HEAD} 137: the kernel killed it at its memory limit of 64Mi",
            {"reason": "OOMKilled"},
            "user",
        ),
        (
            137,
            {"OOMKilled": True, "memory": 3 * 2**29},
            f"{HEAD} 137: the kernel killed it at its memory limit of 1536Mi",
            {"reason": "OOMKilled"},
            "user",
        ),
        (
            137,
            {"OOMKilled": True, "memory": 10**7 + 1},
            f"{HEAD} 137: the kernel killed it at its memory limit of 10000001 bytes",
            {"reason": "OOMKilled"},
            "user",
        ),
        (
            137,
            {"OOMKilled": True},
            f"{HEAD} 137: the kernel killed it when the host had no memory left",
            {"reason": "OOMKilled"},
            "user",
        ),
        (
            128,
            {"Error": "failed to set up\n  the network"},
            f"{HEAD} 128: failed to set up the network",
            {"reason": "EngineError", "error": "failed to set up the network"},
            "platform",
        ),
    ],
)
def test_why_it_failed(
    code: int, state: dict[str, Any], message: str, error: dict[str, Any] | None, fault: Fault
) -> None:
    expected = Observation(Phase.ENDED, exit_code=code, message=message, details=DETAILS, error=error, fault=fault)
    assert seen("exited", code, **state) == expected


@pytest.mark.parametrize("code", [0, 143])
def test_an_end_that_was_asked_for(code: int) -> None:
    found = seen("exited", code, stopped="asked")
    assert (found.phase, found.exit_code, found.stopped) == (Phase.ENDED, code, "asked")


def test_a_success_in_which_a_child_was_killed_is_one() -> None:
    assert seen("exited", 0, OOMKilled=True).message is None


def moment(seconds: float) -> str:
    """So long after the container began."""
    whole, fraction = divmod(seconds, 1)
    return f"2026-12-01T10:{int(whole) // 60:02}:{int(whole) % 60:02}.{round(fraction * 1e9):09}Z"


@pytest.mark.parametrize(
    ("code", "ended", "engine", "more", "expected"),
    [
        pytest.param(143, 100, 102, {}, True, id="told to end by an engine that is restarted"),
        pytest.param(137, 100, 102, {}, True, id="killed by it"),
        pytest.param(255, 100, 3000, {}, True, id="a host that was switched off"),
        pytest.param(143, 100.5, 100, {}, True, id="killed as the engine came back from a crash"),
        pytest.param(0, 100, 129, {}, True, id="told to end, and ended well"),
        pytest.param(1, 100, 129, {}, True, id="told to end, and failed at that"),
        pytest.param(0, 100, 131, {}, False, id="completed before"),
        pytest.param(1, 100, 131, {}, False, id="failed before"),
        pytest.param(143, 100, 106, {"OOMKilled": True}, False, id="killed by the kernel"),
        pytest.param(143, 200, 100, {}, False, id="the engine kept it and it ended later"),
        pytest.param(143, 100, None, {}, False, id="an engine that does not tell"),
        pytest.param(143, 100, -5, {}, False, id="the engine began before it"),
        pytest.param(143, 100, 102, {"FinishedAt": NEVER}, False, id="no end"),
        pytest.param(143, 100, 102, {"StartedAt": "soon"}, False, id="no time"),
        pytest.param(0, 100, 102, {"keeps": True}, False, id="completed while an engine that keeps it was away"),
        pytest.param(1, 100, 102, {"keeps": True}, False, id="failed while an engine that keeps it was away"),
        pytest.param(255, 100, 102, {"keeps": True}, True, id="kept by the engine, and ended with the host"),
    ],
)
def test_whether_the_engine_ended_it(
    code: int, ended: float, engine: float | None, more: dict[str, Any], expected: bool
) -> None:
    keeps = bool(more.get("keeps"))
    state = {"ExitCode": code, "StartedAt": moment(0), "FinishedAt": moment(ended), **more}
    network = None if engine is None else {"Created": moment(engine) if engine >= 0 else "2026-12-01T09:59:55Z"}
    assert interrupted({"State": state}, began_at(network), lambda: keeps) is expected


@pytest.mark.parametrize("code", [0, 143])
def test_an_end_that_the_engine_made_is_no_success_and_no_fault_of_the_job(code: int) -> None:
    found = seen("exited", code, stopped="interrupted")
    assert (found.phase, found.exit_code, found.fault) == (Phase.ENDED, code, "platform")
    assert found.message == (
        f"The Docker engine was stopped, or started anew, while the job ran; its exit code was {code}"
    )
    assert found.error == {"reason": "EngineStopped"}
