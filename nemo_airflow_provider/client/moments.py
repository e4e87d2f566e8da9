"""Times as servers tell them: upstream 0.8.1 leaves the zone out, and means UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_moment(text: str) -> datetime | None:
    """An ISO 8601 moment in UTC, as which it counts if it has no zone; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (OverflowError, ValueError):
        return None


def moment_of(told: object) -> datetime:
    """The moment in UTC; now for what is no time.

    :param told: of an answer
    """
    return parse_moment(str(told)) or datetime.now(UTC)
