"""The reference page says what the code refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_airflow_provider.api.app import MAX_PROBLEMS
from nemo_airflow_provider.api.bodylimit import MAX_BODY_BYTES
from nemo_airflow_provider.model.limits import MAX_STEPS
from nemo_airflow_provider.model.names import MAX_NAME_WITHOUT_OUTPUT_LOCATION
from nemo_airflow_provider.model.plain import MAX_DEPTH
from nemo_airflow_provider.service.filters import MAX_CONDITIONS
from nemo_airflow_provider.service.listing import MAX_PAGE_SIZE

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "jobs-api.md"


@pytest.mark.parametrize(
    "words",
    [
        f"| request body | {MAX_BODY_BYTES // 2**20} MiB |",
        f"| steps of a job | {MAX_STEPS} |",
        f"| nesting of lists and objects | {MAX_DEPTH} levels |",
        f"| conditions of a list's `filter` | {MAX_CONDITIONS};",
        f"| rows of a page | {MAX_PAGE_SIZE};",
        f"the first {MAX_PROBLEMS} of them",
        f"at most {MAX_NAME_WITHOUT_OUTPUT_LOCATION} characters",
    ],
)
def test_limits(words: str) -> None:
    assert words in PAGE.read_text()
