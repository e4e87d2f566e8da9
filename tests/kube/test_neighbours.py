"""Containers that somebody else puts beside a task, as admission webhooks do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nemo_airflow_provider.backends.base import Phase
from nemo_airflow_provider.backends.kubernetes_job import backend as module
from nemo_airflow_provider.backends.kubernetes_job.body import job_of
from tests.contract.test_backend import LOOP, end, running, text
from tests.kube.pods import Pods, shell
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("kubernetes")

#: Adds a container that runs a script, to a list of the pod's.
Inject = Callable[..., None]


@pytest.fixture
def inject(monkeypatch: pytest.MonkeyPatch) -> Inject:
    def add(script: str, place: str = "containers", **more: Any) -> None:
        def body(task: Any, config: Any) -> dict[str, Any]:
            made = job_of(task, config)
            spec = made["spec"]["template"]["spec"]
            container = {"name": "proxy", "image": task.image, "command": ["/bin/sh", "-c", script], **more}
            spec[place] = [*spec.get(place, []), container]
            return made

        monkeypatch.setattr(module, "job_of", body)

    return add


@pytest.mark.parametrize("code", [0, 3])
def test_one_that_never_ends_holds_up_nothing(kube: Pods, inject: Inject, code: int) -> None:
    inject("sleep 1000")
    backend = kube.backend(graceful_shutdown_timeout_seconds=1)
    backend.submit(kube.task(shell(f"echo done; exit {code}")))
    seen = end(kube, backend)
    assert (seen.phase, seen.exit_code, seen.stopped) == (Phase.ENDED, code, None)
    assert text(backend, kube.key()) == b"done\n"
    kube.seen(backend, kube.key(), "the other to end", details=lambda found: found["phase"] in ("Failed", "Succeeded"))
    for each in (backend, kube.backend()):
        again = each.observe(kube.key())
        assert (again.phase, again.exit_code, again.stopped, again.fault) == (Phase.ENDED, code, None, "user")


def test_one_that_does_not_listen_is_ended_with_the_task(kube: Pods, inject: Inject) -> None:
    """The task itself has ended long before."""
    inject(f"trap '' TERM; {LOOP}")
    backend = kube.backend()
    backend.submit(kube.task(shell(f"trap 'echo bye; exit 7' TERM; echo ready; {LOOP}")))
    running(kube, backend)
    kube.runs(backend)
    backend.stop(kube.key(), 3)
    for each in (backend, kube.backend()):
        seen = end(kube, each)
        assert (seen.exit_code, seen.stopped) == (7, "asked")


def test_one_that_fails_is_not_the_task(kube: Pods, inject: Inject) -> None:
    inject("exit 9")
    backend = kube.backend()
    assert kube.output(backend, kube.task(shell("sleep 2; echo done"))) == "done\n"
    assert end(kube, backend).fault == "user"


def test_a_sidecar_of_kubernetes_is_ended_by_it(kube: Pods, inject: Inject) -> None:
    """And the Job has completed for everybody."""
    inject(f"trap 'exit 0' TERM; {LOOP}", "initContainers", restartPolicy="Always")
    backend = kube.backend()
    assert kube.output(backend, kube.task(shell("echo done"))) == "done\n"
    wait_until(lambda: kube.job()["status"].get("conditions"), 60, "the Job's end", pause_seconds=0.2)
    kinds = {each["type"] for each in kube.job()["status"]["conditions"]}
    assert not kinds & {"Failed", "FailureTarget"}


def test_what_fails_before_the_task_says_why(kube: Pods, inject: Inject) -> None:
    """What it prints is not the step's output."""
    inject("echo no licence; exit 4", "initContainers")
    backend = kube.backend()
    backend.submit(kube.task(shell("echo never")))
    seen = end(kube, backend)
    assert (seen.exit_code, seen.fault) == (4, "platform")
    assert seen.error is not None
    assert (seen.error["container"], seen.error["output"]) == ("proxy", "no licence")
    assert text(backend, kube.key()) == b""


def test_nothing_is_stopped_that_has_ended(kube: Pods, inject: Inject) -> None:
    inject("sleep 1000")
    backend = kube.backend(graceful_shutdown_timeout_seconds=1)
    backend.submit(kube.task(shell("exit 3")))
    end(kube, backend)
    backend.stop(kube.key(), 1)
    seen = end(kube, backend)
    assert (seen.exit_code, seen.stopped) == (3, None)
