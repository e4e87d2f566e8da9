"""The processes in which the tasks of an Airflow run."""

from __future__ import annotations

from bench import proc
from bench.registry import TaskMemory
from nemo_airflow_provider import processes
from nemo_airflow_provider.backends.subprocess import supervisor
from tests.stack.airflow import AirflowStack


class Tasks:
    """Where the tasks of an Airflow run.

    :param slots: how many at once
    """

    def __init__(self, stack: AirflowStack, slots: int) -> None:
        self.slots = slots
        self._stack = stack

    def processor_seconds(self) -> float:
        """Processor time of the scheduler, its executor and all tasks, those that have ended included."""
        return sum(map(proc.family_seconds, self._stack.server.components["scheduler"].members()))

    def memory(self) -> TaskMemory:
        executor = set(self._stack.server.components["scheduler"].members())
        # Workloads work in a directory below the home; a supervisor has nothing of it, and is the parent of one.
        table = processes.living()
        parents = {table[process].parent for process in self._stack.processes() if process in table}
        supervisors = [process for process in parents if supervisor.__name__ in processes.title(process)]
        return TaskMemory(
            sum(map(proc.shared_bytes, executor)) / 1e6,
            sum(map(proc.shared_bytes, supervisors)) / 1e6,
        )
