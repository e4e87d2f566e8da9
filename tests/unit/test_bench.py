from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench import systems


@pytest.mark.parametrize("nemo", ["/no/such/nemo", "/"])
def test_an_upstream_that_cannot_be_started_does_not_cost_what_was_measured(
    nemo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def ours(folder: Path, database: str | None) -> Iterator[None]:
        yield None

    monkeypatch.setattr(systems, "ours", ours)
    monkeypatch.setattr(systems, "postgres_url", lambda: None)
    monkeypatch.setenv("NEMO_BENCH_UPSTREAM", nemo)
    report = bench._report([], runs=1)
    assert report["measurements"] == {}
    assert report["notes"][0].startswith("Upstream was not measured: [Errno ")
