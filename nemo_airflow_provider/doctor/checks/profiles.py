"""The configuration file, and whether this installation can run steps of its profiles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from nemo_airflow_provider.backends.registry import Lack
from nemo_airflow_provider.doctor.configfile import FileReport, MergedProfile
from nemo_airflow_provider.doctor.facts import Database, Installation
from nemo_airflow_provider.doctor.findings import Finding, error, fine, note, warning

_REMOVE = "Remove them, unless the file is shared with NeMo Helix."
_QUEUE = "Give it a queue that one host serves, config: {airflow: {queue: NAME}}."
_ELSEWHERE = "Nothing is to be done where they run on other hosts."
_UNTIL = "Until then the jobs API answers 503 and steps fail."


def config_file(installation: Installation) -> Iterator[Finding]:
    """Whether the file is as it should be."""
    report = installation.file
    if report.unreadable is not None:
        yield error("config file", report.unreadable, _UNTIL)
    for problem in report.errors:
        yield error("config file", problem, f"Correct it. {_UNTIL}")
    for problem in report.warnings:
        yield warning("config file", problem, "See `airflow nemo config check`.")
    if report.without_effect:
        yield warning("config file", f"Without effect here: {', '.join(report.without_effect)}.", _REMOVE)
    if report.is_valid and not report.warnings and not report.without_effect:
        yield fine("config file", f"{report}: {len(report.profiles)} execution profiles.")


def of_file(report: FileReport, *, several_hosts: bool) -> Iterator[Finding]:
    """What there is to say to who looks at the file alone: each thing on a line that begins with its place.

    :param several_hosts: whether steps may run on more than one host
    """
    if report.unreadable is not None:
        yield error("file", report.unreadable, "")
    for problem in report.errors:
        yield error("file", problem, "")
    for problem in report.warnings:
        yield warning("file", problem, "")
    for place in report.without_effect:
        yield warning("file", f"{place}: accepted without effect", "")
    for lack, profiles in lacking(report.profiles).items():
        yield warning("file", f"steps of {_listed(profiles)} cannot run here: {lack.reason}", lack.remedy)
    for merged in without_queue(report.profiles) if several_hosts else ():
        yield warning(
            "file",
            f"profile '{merged.profile}' ({merged.origin}): its steps live on their worker's host and no queue says "
            "which; with several workers, nobody can take them over when theirs is lost",
            _QUEUE,
        )


def backends(installation: Installation) -> Iterator[Finding]:
    """Whether what the profiles need is installed."""
    lacks = lacking(installation.file.profiles)
    for lack, profiles in lacks.items():
        yield warning("backends", f"Steps of {_listed(profiles)} cannot run here: {lack.reason}.", lack.remedy)
    if listed := [merged for merged in installation.file.profiles if merged.is_listed_only]:
        yield fine("backends", f"{_listed(listed)} is built in and listed only: this version has no such backend.")
    if not lacks and installation.file.profiles:
        yield fine("backends", "All that the profiles need is installed.")


def lacking(profiles: Iterable[MergedProfile]) -> dict[Lack, list[MergedProfile]]:
    """Profiles whose steps cannot run here, by the reason; without those that are listed only."""
    found: dict[Lack, list[MergedProfile]] = defaultdict(list)
    for merged in profiles:
        if (lack := merged.lack) is not None and not merged.is_listed_only:
            found[lack].append(merged)
    return found


def engines(installation: Installation) -> Iterator[Finding]:
    """Whether the engines of the profiles can be used from this host, and have what their steps need."""
    for engine in installation.engines:
        users = ", ".join(engine.profiles)
        if isinstance(engine.report, str):
            yield _closed(installation, engine.profiles, engine.report)
            continue
        for remark in engine.report.remarks:
            say = warning if remark.fails_steps else note
            yield say("engines", f"{engine.report.engine}, for {users}: {remark.message}.", remark.remedy)
        if not engine.report.remarks:
            yield fine("engines", f"{engine.report.engine} answers, for {users}.")


def _closed(installation: Installation, users: Collection[str], sentence: str) -> Finding:
    merged = [each for each in installation.file.profiles if str(each.profile) in users]
    steps, without = f"Steps of {', '.join(users)} cannot run", " ".join(_without(merged))
    if installation.steps_stay_here:
        return warning("engines", f"{steps}: {sentence}", without)
    return note("engines", f"{steps} on this host: {sentence}", f"{without} {_ELSEWHERE}".strip())


def _without(profiles: Iterable[MergedProfile]) -> Iterator[str]:
    """How an installation does without them."""
    profiles = list(profiles)
    if any(each.is_built_in for each in profiles):
        yield "Or leave built-in profiles out: set platform.runtime to what steps are to run with."
    if own := ", ".join(each.place for each in profiles if each.place is not None):
        yield f"Or correct or remove the entry: {own}."


def hosts(installation: Installation) -> Iterator[Finding]:
    """Whether steps that live on a worker's host always come back to that host."""
    if installation.steps_stay_here and not _several_schedulers(installation):
        return
    lost = without_queue(installation.file.profiles)
    if lost:
        where = ", ".join(installation.executors)
        yield warning(
            "hosts",
            f"Steps of {_listed(lost)} live on their worker's host, and with several hosts ({where}) nobody can take "
            "them over when the worker is lost.",
            _QUEUE,
        )


def without_queue(profiles: Iterable[MergedProfile]) -> list[MergedProfile]:
    """Profiles whose steps live on the worker's host, and that do not say on which."""
    return [
        merged
        for merged in profiles
        if merged.profile.config.is_bound_to_host and merged.profile.config.airflow.queue is None
    ]


def _several_schedulers(installation: Installation) -> bool:
    found = installation.database
    return isinstance(found, Database) and found.alive.get("scheduler", 0) > 1


def trust(installation: Installation) -> Iterator[Finding]:
    """Profiles that give everybody who may make jobs the rights of the worker's user."""
    open_ones = [merged for merged in installation.file.profiles if merged.profile.config.runs_as_worker]
    if open_ones:
        yield note(
            "trust",
            f"Steps of {_listed(open_ones)} run as the worker's own user: who may make a job may do what Airflow may.",
            "Let trusted users alone make jobs, or switch them off: jobs.enable_subprocess_executor: false.",
        )


def executors(installation: Installation) -> Iterator[Finding]:
    """Executors of Airflow that profiles name."""
    for name, users in _named(installation, "executor").items():
        if name not in installation.executor_names:
            yield error(
                "executors",
                f"[core] executor does not list '{name}': steps of {_listed(users)} fail.",
                "Add it to [core] executor, or correct airflow.executor of the profiles.",
            )


def pools(installation: Installation, found: Database) -> Iterator[Finding]:
    """Pools that profiles name."""
    for name, users in _named(installation, "pool").items():
        if name not in found.pools:
            yield error(
                "pools",
                f"There is no pool '{name}': steps of {_listed(users)} never start.",
                f"Make it: airflow pools set {name} SLOTS DESCRIPTION",
            )


def _named(installation: Installation, key: str) -> dict[str, list[MergedProfile]]:
    """Profiles by what they have at a key of `airflow:`."""
    found: dict[str, list[MergedProfile]] = defaultdict(list)
    for merged in installation.file.profiles:
        if name := getattr(merged.profile.config.airflow, key):
            found[name].append(merged)
    return found


def _listed(profiles: Iterable[MergedProfile]) -> str:
    return ", ".join(str(merged.profile) for merged in profiles)
