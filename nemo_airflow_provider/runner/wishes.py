"""What is asked of a step: pause, resume, cancel. Whoever asks writes it down; here it is looked up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from nemo_airflow_provider.model.record import INTENT_KEY, RESUMED_KEY, Intent, parse_intent, parse_moment
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.task import StepHost, StoreUnavailable
from nemo_airflow_provider.runner.timing import Timing

#: So long after a pace was quickened a person may be watching.
_QUICK_SECONDS = 60.0


class Wishes:
    """The newest wish, asked for not too often: each question costs the API server some milliseconds.

    A state store that does not answer changes nothing: what was wished last holds. A cancel is final.

    :param steps_before: names of the job's steps before this one
    """

    def __init__(self, host: StepHost, journal: Journal, timing: Timing, steps_before: Sequence[str]) -> None:
        self._host = host
        self._journal = journal
        self._timing = timing
        self._steps_before = steps_before
        #: When pauses were answered in steps before this one; None as long as it is not known. They are over.
        self._resumed_before: list[datetime] | None = None
        self._newest: Action | None = None
        self._quick_until = time.monotonic() + _QUICK_SECONDS
        self._ask_at = 0.0

    def newest(self, *, at_once: bool = False) -> Action | None:
        """What is wished now.

        :param at_once: ask, however short a while ago that was done
        """
        moment = time.monotonic()
        if self._newest is Action.CANCEL or (moment < self._ask_at and not at_once):
            return self._newest
        with suppress(StoreUnavailable):  # the last one holds
            self._newest = self._ask()
        self._journal.flush()
        pace = self._timing.intent if moment < self._quick_until else self._timing.intent_later
        # Counted from the answer: a store that is away makes a call last up to 20 s.
        self._ask_at = time.monotonic() + pace
        return self._newest

    def _ask(self) -> Action | None:
        intent = parse_intent(self._host.load(INTENT_KEY))
        if intent is None or not intent.binds(self._journal.began_in):
            return None
        return None if intent.action is Action.PAUSE and self._is_answered(intent) else intent.action

    def _is_answered(self, pause: Intent) -> bool:
        """Whether the pause was resumed on Airflow's own pages, in this step or in one before it."""
        record = self._journal.record
        if record and pause.answered(record.resumed_at):
            return True
        with suppress(StoreUnavailable):  # the pause holds, and the next question asks again
            return any(pause.answered(moment) for moment in self._ask_steps_before())
        return False

    def _ask_steps_before(self) -> list[datetime]:
        if self._resumed_before is None:
            left = [self._host.handed(step, RESUMED_KEY) for step in self._steps_before]
            self._resumed_before = [moment for value in left if (moment := parse_moment(value)) is not None]
        return self._resumed_before

    @property
    def cancelled(self) -> bool:
        """Whether an end is wished."""
        return self.newest() is Action.CANCEL

    def cancel(self) -> None:
        """An end is wished in another way than by an intent."""
        self._newest = Action.CANCEL

    def quicken(self) -> None:
        """Ask often for a while: something has just happened."""
        self._quick_until = time.monotonic() + _QUICK_SECONDS
