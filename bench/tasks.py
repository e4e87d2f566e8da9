"""The processes in which the tasks of an Airflow run."""

from __future__ import annotations

from bench import proc
from bench.registry import TaskMemory
from nemo_airflow_provider import processes
from tests.stack.airflow import AirflowStack


class Tasks:
    """Where the tasks of an Airflow run.

    :param slots: how many at once
    """

    def __init__(self, stack: AirflowStack, slots: int) -> None:
        self.slots = slots
        self._stack = stack

    def memory(self) -> TaskMemory:
        executor = set(self._stack.server.components["scheduler"].members())
        # Supervisors leave every session of Airflow's. Workloads do too, and are nobody's of ours.
        outside = set(self._stack.processes()) - set(self._stack.server.members())
        supervisors = [process for process in outside if "python" in processes.title(process).partition(" ")[0]]
        return TaskMemory(
            sum(map(proc.shared_bytes, executor)) / 1e6,
            sum(map(proc.shared_bytes, supervisors)) / 1e6,
        )
