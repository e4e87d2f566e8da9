"""Secrets of real jobs: values reach the command, and no place where they could be read afterwards."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from nemo_airflow_provider import processes
from nemo_airflow_provider.service.secretcheck import SECRETS_TEXT
from tests.e2e.conftest import VARIABLES_FILE
from tests.e2e.lab import JOBS, Job, Lab, Marks, in_parallel, python, step
from tests.e2e.test_airflow_door import clear
from tests.stack.airflow import wait_until


def needing(body: dict[str, Any], **references: str) -> dict[str, Any]:
    """The step with secrets in its environment."""
    return body | {"environment": [{"name": n, "from_secret": {"name": r}} for n, r in references.items()]}


def digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


#: Prints what it was given, and what nobody hides of it.
TELL = (
    "import hashlib, os, sys",
    "for name in ('TOKEN', 'OTHER'):",
    "    if name in os.environ:",
    "        print(name, hashlib.sha256(os.environ[name].encode()).hexdigest(), os.environ[name], 'out')",
    "        print(name, os.environ[name], 'err', file=sys.stderr)",
)


def until_enough(marks: Marks) -> tuple[str, ...]:
    """Tells its token again and again until it is told that this is enough; ten minutes at most."""
    return (
        marks.code,
        "import os, time",
        "for i in range(30_000):",
        "    print(i, os.environ['TOKEN'])",
        "    time.sleep(0.02)",
        f"    if os.path.exists({str(marks.enough)!r}):",
        "        raise SystemExit",
        "raise SystemExit(1)",
    )


AWAY = (
    "Airflow's secrets backend LocalFilesystemBackend failed: AirflowFileParseException. No job was created; try "
    "again, or see the log of the API server."
)


class Vault:
    """Secrets of the lab: in Airflow's database, and in the file of its custom backend."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._file = lab.stack.home.parent / VARIABLES_FILE

    def name(self) -> str:
        return f"s-{secrets.token_hex(4)}"

    def set(self, value: str, name: str = "", workspace: str = "default") -> str:
        """Make or change one in the database; returns its name."""
        name = name or self.name()
        key = f"nemo_secret.{workspace}.{name}"
        if self.lab.http.get(f"/api/v2/variables/{key}").status_code == 404:
            self.lab.airflow("POST", "/variables", {"key": key, "value": value})
        else:
            self.lab.airflow("PATCH", f"/variables/{key}", {"key": key, "value": value})
        return name

    def drop(self, name: str) -> None:
        self.lab.airflow("DELETE", f"/variables/nemo_secret.default.{name}")

    def set_in_file(self, value: str) -> str:
        name = self.name()
        self._file.write_text(json.dumps({f"nemo_secret.default.{name}": value}))
        return name

    @contextmanager
    def away(self) -> Iterator[None]:
        """The custom backend does not work."""
        text = self._file.read_text()
        self._file.write_text("{broken")
        try:
            yield
        finally:
            self._file.write_text(text)


@pytest.fixture(scope="module")
def vault(lab: Lab) -> Vault:
    return Vault(lab)


def holders(value: str) -> set[int]:
    """Living processes with the value in their environment or on their command line."""
    found = set()
    for pid in processes.living():
        try:
            text = Path("/proc", str(pid), "environ").read_bytes() + Path("/proc", str(pid), "cmdline").read_bytes()
        except OSError:
            continue  # ended
        if value.encode() in text:
            found.add(pid)
    return found


def assert_nowhere(lab: Lab, *values: str) -> None:
    """No file below the home has one of the values, but what a command printed on its own host; no row has either."""
    for path in lab.stack.home.rglob("*"):
        if path.is_file() and path.parts[-2:] != (".nemo", "output"):
            content = path.read_bytes()
            assert not [value for value in values if value.encode() in content], path
    with lab.database() as connection:
        for table in sqlalchemy.inspect(connection).get_table_names():
            text = repr(connection.execute(sqlalchemy.text(f'SELECT * FROM "{table}"')).all())
            assert not [value for value in values if value in text], table


def answers(job: Job, *steps: str) -> str:
    """Everything that both APIs tell of a job."""
    ours = [job.get(), job.get("/status"), job.get("/steps"), job.messages()]
    airflows = [job.lab.airflow("GET", job.run_path), *map(job.task, steps)]
    return json.dumps([ours, airflows, [task_logs(job, step) for step in steps]])


def task_logs(job: Job, step: str) -> str:
    """Airflow's logs of every try of a step; of one that a slow host has lost before it began there is none."""
    path = f"/api/v2{job.run_path}/taskInstances/{step}/logs"
    tries = [job.lab.http.get(f"{path}/{n + 1}?full_content=true") for n in range(job.task(step)["try_number"])]
    assert tries[-1].status_code == 200, tries[-1].text
    return "".join(answer.text for answer in tries if answer.status_code == 200)


def test_values_reach_the_command_and_nothing_else(lab: Lab, vault: Vault) -> None:
    value, lines = f"value-{secrets.token_hex(8)}", f"first-{secrets.token_hex(8)}\nsecond-{secrets.token_hex(8)}\n"
    token, other = vault.set(value), vault.set_in_file(lines)
    marks = lab.marks()
    command = python(*TELL, *until_enough(marks))
    job = lab.submit(
        "secret",
        needing(step("work", command), TOKEN=token, OTHER=f"default/{other}"),
        needing(step("fails", python(*TELL, "sys.exit(3)")), TOKEN="in-environment", OTHER="shared/granted"),
    )
    job.wait_for_line("0 ***", 120)
    (pid,) = marks.pids
    assert holders(value) == holders(lines) == {pid}
    environment = Path("/proc", str(pid), "environ").read_bytes().decode()
    assert f"\0NEMO_JOB_SECRETS=TOKEN=default/{token},OTHER=default/{other}\0" in f"\0{environment}\0"
    marks.enough.touch()
    job.wait("error")

    messages = job.messages()
    for name, its in (("TOKEN", value), ("TOKEN", "value-of-the-environment"), ("OTHER", "value-of-shared")):
        assert f"{name} {digest(its)} *** out" in messages
        assert f"[stderr] {name} *** err" in messages
    first = messages.index(f"OTHER {digest(lines)} ***")
    assert messages[first + 1 : first + 3] == ["***", " out"]
    everything = answers(job, "work", "fails")
    shown = [
        part for part in (value, *lines.split(), "value-of-the-environment", "value-of-shared") if part in everything
    ]
    assert shown == []
    failed = job.steps()[1]["tasks"][0]
    assert failed["error_stack"].endswith("[stderr] OTHER *** err")
    assert job.get()["platform_spec"]["steps"][0]["environment"][0]["from_secret"] == {"name": token}
    assert_nowhere(lab, value, *lines.split(), "value-of-shared")


@pytest.fixture(scope="module", autouse=True)
def shared(vault: Vault) -> None:
    """Secrets of the other workspace, one of which jobs of the first may use."""
    vault.set("value-of-shared", "granted", "shared")
    vault.set("kept-by-shared", "kept", "shared")


@pytest.mark.parametrize("reference", ["nope", "shared/nope", "shared/kept", "nowhere/kept", "a/b/c", ""])
def test_what_cannot_be_had_is_refused_alike(lab: Lab, vault: Vault, reference: str) -> None:
    name = lab.name("refused")
    answer = lab.create(name, needing(step("work", python("pass")), TOKEN=reference))
    assert (answer.status_code, answer.json()) == (409, {"detail": SECRETS_TEXT})
    assert answer.headers["x-should-retry"] == "false"
    assert lab.http.get(f"{JOBS}/{name}").status_code == 404
    assert lab.runs(name) == []


def test_what_is_not_there_any_more_when_the_step_starts(lab: Lab, vault: Vault) -> None:
    name = vault.set("short-lived")
    job = lab.submit("gone", needing(step("work", python("pass"), "gated"), TOKEN=name))
    vault.drop(name)
    lab.open_gate(1)
    try:
        ended = job.wait("error")
    finally:
        lab.open_gate(0)
    assert ended["error_details"]["message"] == (
        f"Step 'work' needs the secret 'default/{name}' (for TOKEN), and there is none: set the Airflow Variable "
        f"nemo_secret.default.{name} and run the job again."
    )
    log = task_logs(job, "work")
    assert ended["error_details"]["message"] in log
    assert "Traceback" not in log and "Unable to retrieve variable" not in log


def test_a_run_made_by_hand_may_use_no_more(lab: Lab, vault: Vault) -> None:
    granted = needing(step("work", python("pass")), TOKEN="shared/granted")
    job = lab.submit("own", granted)
    job.wait("completed")
    kept = needing(step("work", python("import os; print(os.environ)")), TOKEN="shared/kept")
    dag = job.run_path.split("/")[2]
    by_hand = Job(lab, lab.name("hand"))
    conf = {"source": "e2e", "spec": {}, "platform_spec": {"steps": [kept]}}
    lab.airflow("POST", f"/dags/{dag}/dagRuns", {"dag_run_id": by_hand.name, "logical_date": None, "conf": conf})
    message = by_hand.wait("error")["error_details"]["message"]
    assert message.startswith("Step 'work' may not use the secret 'shared/kept' (for TOKEN): [nemo] secret_grants")
    assert by_hand.messages() == []


def test_a_step_taken_over_after_a_kill_hides_its_values_too(lab: Lab, vault: Vault) -> None:
    value = f"value-{secrets.token_hex(8)}"
    name = vault.set(value)
    marks = lab.marks()
    job = lab.submit("adopted", needing(step("work", python(*until_enough(marks))), TOKEN=name))
    job.wait_for_line("10 ***")
    tries = job.task("work")["try_number"]
    job.kill_task("work")
    wait_until(lambda: job.task("work")["try_number"] > tries, 60, "the next try")
    seen = len(job.messages())
    wait_until(lambda: len(job.messages()) > seen + 10, 60, "more lines")
    marks.enough.touch()
    job.wait("completed")
    messages = job.messages()
    assert messages == [f"{number} ***" for number in range(len(messages))]
    assert len(marks.pids) == 1
    assert value not in task_logs(job, "work")
    assert_nowhere(lab, value)


def test_a_rerun_after_a_rotation_hides_the_new_value(lab: Lab, vault: Vault) -> None:
    old, new = f"old-{secrets.token_hex(8)}", f"new-{secrets.token_hex(8)}"
    name = vault.set(old)
    job = lab.submit("rotated", needing(step("work", python(*TELL)), TOKEN=name))
    first = job.wait("completed")
    assert job.messages()[0] == f"TOKEN {digest(old)} *** out"
    vault.set(new, name)
    clear(job)
    wait_until(lambda: job.get()["attempt_id"] != first["attempt_id"], 60, "the second attempt")
    job.wait("completed")
    assert job.messages()[0] == f"TOKEN {digest(new)} *** out"
    assert_nowhere(lab, old, new)


def test_a_backend_that_is_away_is_waited_for(lab: Lab, vault: Vault) -> None:
    name = vault.set_in_file("value-of-the-file")
    job = lab.submit("waits", needing(step("work", python(*TELL), "gated"), TOKEN=name))
    try:
        with vault.away():
            refused = in_parallel(
                lambda reference=reference: lab.create(
                    lab.name("away"), needing(step("work", python("pass")), TOKEN=reference)
                )
                for reference in ("nope", "shared/granted-no-more", "shared/kept")
            )
            told = [(answer.status_code, answer.json()["detail"]) for answer in refused]
            assert told == [(503, AWAY), (409, SECRETS_TEXT), (409, SECRETS_TEXT)]
            lab.open_gate(1)
            wait_until(
                lambda: "nobody can tell its value now" in str(job.get()["status_details"].get("message")),
                60,
                "the step to say what it waits for",
            )
        job.wait("completed")
    finally:
        lab.open_gate(0)
    assert job.messages()[0] == f"TOKEN {digest('value-of-the-file')} *** out"
