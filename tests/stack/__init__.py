"""A real Airflow for tests, and the outside engines that tests need."""

from __future__ import annotations

from tests.stack.airflow import AirflowStack
from tests.stack.engines import require

__all__ = ["AirflowStack", "require"]
