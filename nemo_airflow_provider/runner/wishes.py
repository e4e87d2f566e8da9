"""What is asked of a step: pause, resume, cancel. Whoever asks writes it down; here it is looked up."""

from __future__ import annotations

import time
from contextlib import suppress

from nemo_airflow_provider.model.record import INTENT_KEY, parse_intent
from nemo_airflow_provider.model.status import Action
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.task import StepHost, StoreUnavailable
from nemo_airflow_provider.runner.timing import Timing

#: So long after a pace was quickened a person may be watching.
_QUICK_SECONDS = 60.0


class Wishes:
    """The newest wish, asked for not too often: each question costs the API server some milliseconds.

    A state store that does not answer changes nothing: what was wished last holds. A cancel is final.
    """

    def __init__(self, host: StepHost, journal: Journal, timing: Timing) -> None:
        self._host = host
        self._journal = journal
        self._timing = timing
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
        record = self._journal.record
        return None if record and intent.answered(record.resumed_at) else intent.action

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
