"""What is known of an installation before it is judged: plain data, so that the checks need no Airflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nemo_airflow_provider import executors
from nemo_airflow_provider.backends.powers import EngineReport
from nemo_airflow_provider.doctor.configfile import FileReport

#: Reads an option of Airflow by section and name; empty when it is not set.
Options = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The DAG of a workspace as Airflow knows it.

    :param known: whether it was ever parsed
    :param stale: whether the last parse did not find it any more
    """

    known: bool
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Database:
    """What Airflow's database says.

    :param alive: by part (`scheduler`, `dag-processor`): how many of them run now
    :param anchors: by workspace
    :param paused: DAG ids of job shapes, and of the sweep, that somebody paused
    :param import_error: last line of the import error of our DAG file, if it has one
    :param shapes: how many job shapes are stored
    :param runs_read: how many of the newest runs of our DAGs were looked at
    :param no_jobs: those of them that carry no valid job, as `DAG id / run id`
    :param pools: names of the pools
    """

    alive: Mapping[str, int]
    anchors: Mapping[str, Anchor]
    paused: tuple[str, ...] = ()
    import_error: str | None = None
    shapes: int = 0
    runs_read: int = 0
    no_jobs: tuple[str, ...] = ()
    pools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DatabaseTrouble:
    """Why nothing is known of the database."""

    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Workspaces:
    """The option `[nemo] workspaces`.

    :param names: empty when the option is wrong
    :param restricted: those with an `access_control`
    :param problem: what is wrong with the option
    """

    names: tuple[str, ...] = ()
    restricted: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that profiles name.

    :param profiles: names of the profiles whose steps run there
    :param report: what it says; or, in one sentence, why it cannot be used
    """

    profiles: tuple[str, ...]
    report: EngineReport | str


@dataclass(frozen=True, slots=True)
class Installation:
    """Everything that is judged.

    :param option: reads Airflow's configuration
    :param file: what was found in our configuration file
    :param storage: `[nemo] storage`
    :param plugin_problem: why the jobs API is not in Airflow's API server
    :param dialect: the database's kind, as in `postgresql`
    :param bad_options: what is wrong with options of `[nemo]`, beside the workspaces
    :param engines: those that can be asked, as this host finds them
    """

    option: Options
    file: FileReport
    workspaces: Workspaces
    storage: Path
    database: Database | DatabaseTrouble
    dialect: str = ""
    plugin_problem: str | None = None
    bad_options: tuple[str, ...] = ()
    engines: tuple[Engine, ...] = ()

    @property
    def executors(self) -> tuple[str, ...]:
        """Class names in `[core] executor`."""
        return executors.class_names(self.option("core", "executor"))

    @property
    def executor_names(self) -> frozenset[str]:
        """All names that a task may call them by."""
        return executors.all_names(self.option("core", "executor"))

    @property
    def steps_stay_here(self) -> bool:
        """Whether every step runs on the scheduler's host."""
        return executors.run_here(self.executors)
