"""Samples to numbers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.registry import Sample


def summary(warm_up: Sequence[Sample], samples: Sequence[Sample]) -> dict[str, Any]:
    """The samples of the warm-up one by one, since caches fill then; median, best and worst of the others.

    Of samples with several numbers each number has its own.
    """
    if isinstance(first := samples[0], Mapping):
        return {name: summary(_numbers(warm_up, name), _numbers(samples, name)) for name in first}
    return _summary(_numbers(warm_up), _numbers(samples))


def _numbers(samples: Sequence[Sample], name: str = "") -> list[float]:
    return [sample[name] if isinstance(sample, Mapping) else sample for sample in samples]


def _summary(warm_up: Sequence[float], samples: Sequence[float]) -> dict[str, Any]:
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
