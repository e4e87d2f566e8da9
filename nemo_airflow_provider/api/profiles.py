"""Endpoint 1: execution profiles."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
from typing import Any

from fastapi import APIRouter

from nemo_airflow_provider.api.dependencies import ProfilesDep

router = APIRouter(tags=["execution profiles"])


@router.get("/execution-profiles")
def list_execution_profiles(profiles: ProfilesDep) -> list[dict[str, Any]]:
    """Every profile a job may name, with its configuration."""
    return [profile.public() for profile in profiles.profiles]
