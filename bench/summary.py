"""Samples to numbers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def summary(samples: Sequence[float]) -> dict[str, Any]:
    """The first sample apart, since caches fill then; median, best and worst of the rest."""
    first, *rest = samples
    rest = rest or [first]
    return {
        "first": round(first, 4),
        "median": round(statistics.median(rest), 4),
        "best": round(min(rest), 4),
        "worst": round(max(rest), 4),
        "runs": len(rest),
    }


def side_by_side(ours: dict[str, Any] | None, upstream: dict[str, Any] | None) -> dict[str, Any]:
    """Both summaries, and upstream's median over ours: above 1, ours is faster."""
    report: dict[str, Any] = {"ours": ours, "upstream": upstream}
    if ours and upstream and "median" in ours and "median" in upstream:
        report["upstream_over_ours"] = round(upstream["median"] / ours["median"], 2)
    return report
