"""Who has the GPUs, and who waits for them."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
from fastapi import APIRouter

from nemo_airflow_provider.api.dependencies import ConfiguredProfilesDep, ServicesDep
from nemo_airflow_provider.service.gpus import GpuListing

router = APIRouter(tags=["GPUs"])


@router.get("/gpus")
def list_gpus(services: ServicesDep, profiles: ConfiguredProfilesDep) -> GpuListing:
    """The GPUs of every engine that this API server may ask, who has each, and who waits in line.

    Steps that you may not read have no names here; an engine that does not answer has an `error`.
    """
    return services.gpus.listing(profiles)
