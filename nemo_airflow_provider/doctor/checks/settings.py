"""Options of Airflow and of our section: the recommended ones, and those that must have a certain form."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from nemo_airflow_provider.backends.container.environment import is_loopback
from nemo_airflow_provider.doctor.facts import Installation
from nemo_airflow_provider.doctor.findings import Finding, error, fine, warning
from nemo_airflow_provider.doctor.recommended import RECOMMENDED, Recommendation

_PROBE_MODES = frozenset({"", "auto", "true", "1", "yes", "on", "always", "false", "0", "no", "off", "never"})


def recommended(installation: Installation) -> Iterator[Finding]:
    """The settings that the install guide recommends."""
    findings = [
        finding for each in RECOMMENDED if (finding := _compared(each, installation.option(each.section, each.name)))
    ]
    if workers := _few_workers(installation):
        findings.append(workers)
    yield from findings or [fine("settings", "As recommended.")]


def _few_workers(installation: Installation) -> Finding | None:
    text = installation.option("api", "workers")
    # SQLite has one writer at a time: a second worker of the API server would wait for the first.
    if installation.dialect == "sqlite" or not text.isdecimal() or int(text) >= 2:
        return None
    return warning(
        "settings", f"[api] workers is {text}: one slow request holds up all others.", "Set it to 2 or more."
    )


def _compared(recommendation: Recommendation, text: str) -> Finding | None:
    try:
        value = float(text)
    except ValueError:
        return error("settings", f"{recommendation} is no number: {text!r}.", f"Set it to {recommendation.most:g}.")
    if value <= recommendation.most:
        return None
    return warning(
        "settings", f"{recommendation} is {text}: {recommendation.unless}.", f"Set it to {recommendation.most:g}."
    )


def options(installation: Installation) -> Iterator[Finding]:
    """Options of `[nemo]` that must have a certain form."""
    for problem in installation.bad_options:
        yield error("options", problem, "Correct the option, or remove it for its default.")
    mode = installation.option("nemo", "probe_engines").strip().lower()
    if mode not in _PROBE_MODES:
        yield error(
            "options", f"[nemo] probe_engines is {mode!r}, which counts as false.", "Write auto, true or false."
        )


def task_url(installation: Installation) -> Iterator[Finding]:
    """Where workloads reach the jobs API."""
    named, text = _task_url(installation)
    if not text:
        yield warning(
            "task url",
            "Neither [api] base_url nor [nemo] task_base_url is set: workloads are told http://localhost:8080.",
            "Set [api] base_url to the URL people use.",
        )
        return
    url = _split(text)
    if url is None:
        yield error("task url", f"{named} is no URL: {text!r}.", "Write it as http://host:port or https://host/path.")
    elif url.query or url.fragment:
        yield error("task url", f"{named} has a query or a fragment: {text!r}.", "Write the address alone.")
    elif is_loopback(url.hostname or "") and not installation.steps_stay_here:
        yield warning(
            "task url",
            f"{named} is {text}, which only this host reaches; workers of {', '.join(installation.executors)} may be "
            "elsewhere.",
            "Set [nemo] task_base_url to a URL that every workload reaches.",
        )
    elif is_loopback(url.hostname or "") and not installation.file.loopback_address and (pods := _pods(installation)):
        yield warning(
            "task url",
            f"{named} is {text}, which is the pod itself in pods of {pods}: they do not reach the jobs API.",
            "Set [nemo] task_base_url to a URL that pods reach, or platform.loopback_address to what they call this "
            "host.",
        )
    else:
        yield fine("task url", f"Workloads are told {text}.")


def _pods(installation: Installation) -> str:
    """Names of the profiles whose steps are pods."""
    return ", ".join(
        str(each.profile)
        for each in installation.file.profiles
        if each.profile.config.needs_cluster and each.lack is None
    )


def _task_url(installation: Installation) -> tuple[str, str]:
    for section, name in (("nemo", "task_base_url"), ("api", "base_url")):
        if text := installation.option(section, name):
            return f"[{section}] {name}", text
    return "", ""


def _split(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        return None
    return url if url.scheme in ("http", "https") and url.hostname else None
