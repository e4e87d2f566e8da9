"""The reference page says what the models check."""

from __future__ import annotations

from pathlib import Path

from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.profiles.reference import reference_page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_page_is_not_stale() -> None:
    assert PAGE.read_text() == reference_page(), (
        "write it anew: python -m nemo_airflow_provider.profiles.reference > docs/reference/configuration.md"
    )


def test_every_key_is_described() -> None:
    page = reference_page()
    assert "| None |" not in page
    for entry in BACKENDS.values():
        assert f"## Keys of `{entry.name}`" in page
        for key in entry.config_class.model_fields:
            assert f"| `{key}` |" in page
