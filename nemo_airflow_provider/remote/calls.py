"""Calls to the other server that bear with its troubles and end when this process must."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeVar

from nemo_airflow_provider.client.errors import ClientError
from nemo_airflow_provider.client.jobs import JobsClient
from nemo_airflow_provider.client.pace import BackOff, Patience, Poll
from nemo_airflow_provider.client.transport import Transport
from nemo_airflow_provider.runner import StepHost, Wakeup

T = TypeVar("T")

_CUT_INTERVAL_SECONDS = 0.2


class Interrupted(Exception):
    """SIGTERM came: this process has seconds left."""


def interruptible_sleep(terminated: Wakeup) -> Callable[[float], None]:
    """A `time.sleep` that SIGTERM ends, with `Interrupted`."""

    def sleep(seconds: float) -> None:
        if terminated.wait(seconds):
            raise Interrupted

    return sleep


@contextmanager
def cut_when_terminated(client: JobsClient | Transport, terminated: Wakeup) -> Iterator[None]:
    """A block whose requests do not outlast SIGTERM: an answer may take a minute, and SIGKILL comes after 5 s.

    :raises Interrupted: SIGTERM came
    """
    done = Event()

    def cut() -> None:
        while not done.is_set():
            if terminated.wait(_CUT_INTERVAL_SECONDS):
                client.interrupt()
                # Again: a connection that was being opened could not be cut.
                done.wait(_CUT_INTERVAL_SECONDS)

    thread = Thread(target=cut, daemon=True)
    thread.start()
    try:
        yield
    except ClientError as error:
        if terminated.is_set():
            raise Interrupted from error
        raise
    finally:
        done.set()
        thread.join()


class Calls:
    """Repeats what fails because the server is in trouble.

    :param outage_seconds: how long in a row
    :param explain: an error as a sentence
    """

    def __init__(
        self,
        host: StepHost,
        outage_seconds: float,
        explain: Callable[[ClientError], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._outage_seconds = outage_seconds
        self._explain = explain
        self._clock = clock
        self._sleep = interruptible_sleep(host.terminated)

    def __call__(self, call: Callable[[], T]) -> T:
        """The answer.

        :raises ClientError: trying again would not help, or has not in time
        :raises Interrupted: SIGTERM came
        """
        patience = Patience(self._outage_seconds, self._clock)
        trouble = BackOff(Poll(None))
        while True:
            try:
                return call()
            except ClientError as error:
                if not patience.bears(error):
                    raise
                message, pause = trouble.again(self._explain(error))
                if message:
                    self._host.note(f"{message} Trying again.")
                self._sleep(pause)
