"""Stored values: ours are read back, and whatever else stands under our keys is nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nemo_airflow_provider.model.record import Intent, StepRecord, parse_intent, parse_record
from nemo_airflow_provider.model.status import Action, Status

MOMENT = datetime(2026, 12, 1, tzinfo=UTC)
RECORD = {"status": "active", "created_at": "2026-12-01T00:00:00Z", "updated_at": "2026-12-01T00:00:00Z"}
INTENT = {"action": "cancel", "at": "2026-12-01T00:00:00Z"}


def test_what_was_written_is_read() -> None:
    record = StepRecord(status=Status.ACTIVE, created_at=MOMENT, updated_at=MOMENT, grace_seconds=10)
    intent = Intent(action=Action.CANCEL, by="ann", at=MOMENT, clear_number=2)
    assert parse_record(record.model_dump(mode="json", exclude_defaults=True)) == record
    assert parse_intent(intent.model_dump(mode="json")) == intent


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert parse_record({**RECORD, "colour": "red"}) == parse_record(RECORD) is not None
    assert parse_intent({**INTENT, "colour": "red"}) == parse_intent(INTENT) is not None


@pytest.mark.parametrize("value", [None, "x", 7, True, [], [RECORD], {}, {"status": "active"}])
def test_what_is_neither(value: Any) -> None:
    assert (parse_record(value), parse_intent(value)) == (None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "strange"},
        {"created_at": "2026-12-01T00:00:00"},  # without a zone it compares with nothing of ours
        {"created_at": "0001-01-01T00:00:00+14:00"},  # no such moment in UTC
        {"ended_at": "9999-12-31T23:59:59-12:00"},
        {"status_details": []},
        {"status_details": {"a": float("nan")}},
        {"error_details": {"a": ["\ud800"]}},
        {"tasks": [{"name": "x"}]},
        {"clear_number": "many"},
    ],
)
def test_broken_records(changes: dict[str, Any]) -> None:
    assert parse_record({**RECORD, **changes}) is None


@pytest.mark.parametrize("changes", [{"action": "dance"}, {"at": "yesterday"}, {"by": "\ud800"}])
def test_broken_intents(changes: dict[str, Any]) -> None:
    assert parse_intent({**INTENT, **changes}) is None
