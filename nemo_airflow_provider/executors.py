"""Airflow's option `[core] executor`: several executors, each with an alias and a team if it has them."""

from __future__ import annotations

import re
from collections.abc import Collection


def class_names(option: str) -> tuple[str, ...]:
    """The executors' classes, without their modules."""
    return tuple(re.split(r"[.:]", item)[-1] for item in _items(option))


def all_names(option: str) -> frozenset[str]:
    """What a task may call the executors by: alias, class, dotted path."""
    parts = {part for item in _items(option) for part in item.split(":")}
    return frozenset(parts | {part.rpartition(".")[2] for part in parts})


def run_here(classes: Collection[str]) -> bool:
    """Whether executors of these classes run every task on their scheduler's host."""
    return set(classes) <= {"LocalExecutor"}


def _items(option: str) -> list[str]:
    # Each may have a team before it: `team=Executor`.
    return [item.rpartition("=")[2].strip() for item in re.split(r"[,;]", option) if item.strip()]
