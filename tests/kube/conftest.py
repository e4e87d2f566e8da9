from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kube.pods import Pods, pods
from tests.stack import engines


@pytest.fixture
def kube() -> Iterator[Pods]:
    """The namespace that tests share."""
    engines.require("kubernetes")
    with pods() as made:
        yield made
