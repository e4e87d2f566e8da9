"""Secrets backends that have, lack, refuse and fail."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from nemo_airflow_provider.errors import Superseded, Unavailable
from nemo_airflow_provider.variables import look_up

Backend = Callable[[], str | None]


def raising(error: Exception) -> Backend:
    def backend() -> str | None:
        raise error

    return backend


def has() -> str | None:
    return "value"


def lacks() -> str | None:
    return None


FAILS = raising(ConnectionError("token=hunter22"))


@pytest.mark.parametrize(
    ("backends", "value"),
    [
        ([], None),
        ([lacks, has], "value"),
        ([lambda: "", has], ""),
        ([lacks, lacks], None),
        ([FAILS, has], "value"),
        ([raising(NotImplementedError()), lacks], None),
        ([raising(AirflowSecretsBackendAccessDenied("no")), has], None),
    ],
)
def test_the_first_that_has_it(backends: list[Backend], value: str | None) -> None:
    assert look_up(backends, lambda backend: backend()) == value


def test_one_that_fails_is_not_one_that_lacks_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Unavailable) as caught:
        look_up([FAILS, lacks], lambda backend: backend())
    assert str(caught.value) == "Airflow's secrets backend function failed: ConnectionError"
    assert "hunter22" not in caplog.text


def test_our_own_errors_pass() -> None:
    with pytest.raises(Superseded):
        look_up([raising(Superseded("gone")), has], lambda backend: backend())
