from __future__ import annotations

import os
import signal

import pytest

from nemo_airflow_provider.standalone.interruption import Interruption, Stopped


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_work_is_interrupted_once_and_its_end_never(number: signal.Signals) -> None:
    hurried: list[bool] = []
    before = signal.getsignal(number)
    with Interruption(lambda: hurried.append(True)) as interruption:
        with pytest.raises(Stopped), interruption.allowed():
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), number)
        assert len(hurried) == 1
    assert signal.getsignal(number) == before


def test_after_work_that_ended_by_itself_the_first_signal_only_hurries() -> None:
    hurried: list[bool] = []
    with Interruption(lambda: hurried.append(True)) as interruption:
        with interruption.allowed():
            pass
        os.kill(os.getpid(), signal.SIGINT)
    assert hurried == [True]
