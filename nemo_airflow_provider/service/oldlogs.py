"""Removing logs of jobs that were deleted, by us or by Airflow's own means: all that are stored are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from nemo_airflow_provider.logs.store import remove_run, stored_runs
from nemo_airflow_provider.service import sweeprows
from nemo_airflow_provider.sweep.leaving import left_for_next

#: A delete removes the log itself: what is left are those of runs that were deleted in Airflow. They can wait, and
#: every job's directory is listed and its run looked up.
_BETWEEN = timedelta(hours=1)

#: In the storage, for all API servers: when that was done last.
_LAST = "logs.swept"

#: Runs that are looked up, and are in memory, at once.
_AT_ONCE = 400


def is_due(storage: Path, moment: datetime) -> bool:
    """Whether it is time to look through the logs again."""
    try:
        last = datetime.fromisoformat((storage / _LAST).read_text().strip())
        return abs(moment - last) >= _BETWEEN  # one of the future is of a clock that was wrong
    except (OSError, ValueError, TypeError):
        return True  # never, or it was not written to its end


def remove_logs(storage: Path, moment: datetime) -> int:
    """Remove the logs of jobs that are gone; how many.

    :raises OSError: the storage cannot be read or written
    :raises DatabaseAway: the database is busy or away
    """
    stored = iter(stored_runs(storage))  # before the question: a run is there before its log
    removed = 0
    while some := list(islice(stored, _AT_ONCE)):
        removed += _removed(storage, some)
    (storage / _LAST).write_text(moment.isoformat())
    return removed


def _removed(storage: Path, stored: Sequence[tuple[str, str]]) -> int:
    runs = sweeprows.runs_with([run_key for _, run_key in stored])
    removed = 0
    for workspace, run_key in stored:
        if run_key in runs and not runs[run_key].deleted:
            continue
        with left_for_next(f"The log of run key {run_key} in workspace '{workspace}'"):
            remove_run(storage, workspace, run_key)
            removed += 1
    return removed
