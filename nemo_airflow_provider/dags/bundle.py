"""The DAG bundle that ships our one DAG file with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

DAG_FILES = Path(__file__).parent / "files"


class JobsDagBundle(LocalDagBundle):  # type: ignore[misc]
    """Named in `[dag_processor] dag_bundle_config_list`; needs no arguments.

    Unversioned on purpose: shapes are immutable, so a run always finds the DAG it began with.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(path=str(DAG_FILES), **kwargs)
