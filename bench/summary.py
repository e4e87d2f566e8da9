"""Samples to numbers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def summary(warm_up: Sequence[float], samples: Sequence[float]) -> dict[str, Any]:
    """The samples of the warm-up one by one, since caches fill then; median, best and worst of the others."""
    return {
        "warm_up": [round(sample, 4) for sample in warm_up],
        "median": round(statistics.median(samples), 4),
        "best": round(min(samples), 4),
        "worst": round(max(samples), 4),
        "runs": len(samples),
    }


def side_by_side(ours: dict[str, Any] | None, upstream: dict[str, Any] | None) -> dict[str, Any]:
    """Both summaries, and upstream's median over ours: above 1, ours is faster."""
    report: dict[str, Any] = {"ours": ours, "upstream": upstream}
    if ours and upstream and "median" in ours and "median" in upstream:
        report["upstream_over_ours"] = round(upstream["median"] / ours["median"], 2)
    return report
