"""A database that fails in the middle of a request: only the request knows what it has done, so it gives the advice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nemo_airflow_provider.errors import Unavailable


class DatabaseAway(Unavailable):
    """Airflow's database cannot do now what it was asked for, and may in a moment.

    :param what: a sentence about the database
    :param hint: a sentence to whoever runs it, or nothing
    :param undone: whether the session that failed has surely written nothing; others of the request may have
    """

    def __init__(self, what: str, *, hint: str = "", undone: bool = False) -> None:
        self.what = what
        self.hint = hint
        self.undone = undone
        super().__init__(self._text("Try again."))

    def advising(self, advice: str) -> Unavailable:
        """The error to raise instead where more is known than that it may be tried again."""
        return Unavailable(self._text(advice))

    def _text(self, advice: str) -> str:
        return " ".join(filter(None, (self.what, advice, self.hint)))


@contextmanager
def advised(advice: str) -> Iterator[None]:
    """Give this advice about a database that fails in the block; of nested blocks the inner one has the word."""
    try:
        yield
    except DatabaseAway as error:
        raise error.advising(advice) from error
