"""`airflow nemo sweep`: one sweep by hand, through the engines that this host reaches."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nemo_airflow_provider.airflow_cli.commands import command, data_alone_on_stdout
from nemo_airflow_provider.cli.terminal import Terminal
from nemo_airflow_provider.errors import NemoJobsError
from nemo_airflow_provider.sweep.office import AskedJob, Ending, JobStanding

if TYPE_CHECKING:
    from nemo_airflow_provider.service.sweep import SweepOffice

#: How long output is collected: somebody waits, and may wait longer than a worker's slot.
_SECONDS = 60.0


@command
def sweep(args: argparse.Namespace) -> int:
    """`airflow nemo sweep`."""
    terminal = Terminal()
    try:
        with data_alone_on_stdout():
            done, undone = swept()
    except (NemoJobsError, OSError) as error:
        terminal.note(f"Error: {error}")
        return 1
    if args.output == "json":
        terminal.say(json.dumps(done))
    else:
        for name, count in done.items():
            terminal.say(f"{name.replace('_', ' ')}: {count}")
    if undone:  # the log on stderr has said what, and why
        terminal.note(f"Left for the next sweep: {undone}.")
    elif args.output != "json":
        terminal.note("Swept." if done else "Nothing to do.")
    return 1 if undone else 0


def swept() -> tuple[dict[str, int], int]:
    """Sweep once; what was done, in numbers that are not 0, and how many things could not be done.

    :raises NemoJobsError: it cannot be swept
    """
    from nemo_airflow_provider import settings
    from nemo_airflow_provider.hooks.site import site_of
    from nemo_airflow_provider.installation import installation_id
    from nemo_airflow_provider.service.sweep import SweepOffice
    from nemo_airflow_provider.service.variable import value_of
    from nemo_airflow_provider.sweep.engines import swept_engines
    from nemo_airflow_provider.sweep.host import HostSweep

    storage = settings.storage()
    installation = installation_id(storage)
    office = SweepOffice(storage)
    office.admit(installation)
    profiles = settings.profiles()
    engines = swept_engines(profiles.profiles, site_of(profiles))
    here = _InProcess(office)
    done = Counter(here.chores())
    host = HostSweep(here, installation, storage, lambda key: value_of(key, None), seconds=_SECONDS)
    done.update(host.run(engines))
    return {name: count for name, count in done.items() if count}, host.undone


class _InProcess:
    """`Office` without a server between: whoever runs this has the database."""

    def __init__(self, office: SweepOffice) -> None:
        self._office = office

    def chores(self) -> Mapping[str, int]:
        """See `Office`."""
        return asyncio.run(self._office.chores(thorough=True))

    def standings(self, jobs: Sequence[AskedJob]) -> Sequence[JobStanding]:
        """See `Office`."""
        return self._office.standings(jobs)

    def settle(self, endings: Sequence[Ending]) -> int:
        """See `Office`."""
        return asyncio.run(self._office.settle(endings))
