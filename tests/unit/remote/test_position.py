"""How far a log was read, stored and read back."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_airflow_provider.client.position import LogPosition
from nemo_airflow_provider.remote.record import RemoteRecord, parse_record

POSITION = LogPosition("cursor", 2, (1, 2**32 - 1), (7,), 9, 502)


def test_round_trip() -> None:
    assert LogPosition.parse(POSITION.dump()) == POSITION


@pytest.mark.parametrize(
    "stored", [None, 1, "x", {}, {**POSITION.dump(), "skip": "2"}, {**POSITION.dump(), "marks": "zz"}, {"given": 3}]
)
def test_what_people_wrote_there_is_the_start(stored: Any) -> None:
    with pytest.raises(ValueError, match=r".*"):
        LogPosition.parse(stored)
    record = RemoteRecord(generation=0, ordinal=1, name="x", workspace="default", mark="m")
    changed = record.model_copy(update={"position": stored})
    assert changed.log_position == LogPosition()


def test_the_largest_record_can_be_stored() -> None:
    """Airflow's REST API refuses values of more than 64 KiB."""
    full = tuple([2**32 - 1] * 500)
    position = LogPosition("c" * 200, 500, full, full, 1, 10**9)
    record = RemoteRecord(
        generation=0, ordinal=1, name="x" * 51, workspace="w" * 63, mark="m" * 32, position=position.dump()
    )
    assert len(record.model_dump_json()) < 16 * 1024
    assert parse_record(record.dump()) == record
