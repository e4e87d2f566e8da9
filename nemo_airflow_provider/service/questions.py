"""Questions to what may never answer: each is asked by a thread of its own, waited for briefly, and remembered."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from nemo_airflow_provider.errors import BackendError

log = logging.getLogger(__name__)

T = TypeVar("T")


class Unanswered(BackendError):
    """There is no answer yet."""


@dataclass(frozen=True, slots=True)
class _Question:
    asked_at: float
    answer: Future[Any]


class Questions:
    """Answers of the last seconds, for all requests of a process: what many ask at once is asked once.

    :param wait_seconds: how long anybody waits, counted from when the question was asked
    :param keep_seconds: how long an answer, or a refusal, is good for
    :param abandon_seconds: after this a question without an answer is asked again
    """

    def __init__(
        self,
        *,
        wait_seconds: float = 2.0,
        keep_seconds: float = 5.0,
        abandon_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wait_seconds = wait_seconds
        self._keep_seconds = keep_seconds
        self._abandon_seconds = abandon_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: dict[str, _Question] = {}

    def ask(self, key: str, about: str, question: Callable[[], T]) -> T:
        """The answer.

        :param key: what is the same question has the same key
        :param about: who is asked, for messages
        :raises Unanswered: there is none in time
        :raises BackendError: what the question raised; also for what nobody foresaw
        """
        with self._lock:
            asked = self._asked.get(key)
            if asked is None or self._is_old(asked):
                asked = self._asked[key] = _Question(self._clock(), Future())
                arguments = (asked.answer, about, question)
                threading.Thread(target=_answer, args=arguments, name="nemo-question", daemon=True).start()
        left = max(0.0, asked.asked_at + self.wait_seconds - self._clock())
        try:
            return cast(T, asked.answer.result(left))
        except TimeoutError:  # of the waiting alone: what the question raises is a BackendError
            raise Unanswered(
                f"There is no answer from {about} within {self.wait_seconds:g} s: it hangs, or has too much to do."
            ) from None

    def _is_old(self, asked: _Question) -> bool:
        age = self._clock() - asked.asked_at
        return age > (self._keep_seconds if asked.answer.done() else self._abandon_seconds)


def _answer(answer: Future[Any], about: str, question: Callable[[], Any]) -> None:
    try:
        answer.set_result(question())
    except BackendError as error:
        answer.set_exception(error)
    except Exception as error:
        log.exception("%s could not be asked", about)
        answer.set_exception(BackendError(f"What {about} says is not understood: {type(error).__name__}: {error}"))
