"""Apache Airflow as the home of NVIDIA NeMo Helix jobs."""

from __future__ import annotations

__version__ = "0.1.0"
