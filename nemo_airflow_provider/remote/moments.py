"""Times as servers tell them: upstream 0.8.1 leaves the zone out, and means UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def moment_of(told: object) -> datetime:
    """The moment, with its zone; now for what is no time.

    :param told: of an answer, ISO 8601
    """
    try:
        moment = datetime.fromisoformat(str(told))
    except ValueError:
        return datetime.now(UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
