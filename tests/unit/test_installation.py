"""The id of an installation: one, whoever asks first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nemo_airflow_provider.installation import claim, installation_id, is_claimed


def test_all_who_ask_at_once_get_the_same(tmp_path: Path) -> None:
    storage = tmp_path / "a" / "storage"
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: installation_id(storage), range(32)))
    assert len(found) == 1
    assert installation_id(storage) in found
    assert [path.name for path in storage.iterdir()] == ["installation"]


def test_two_storages_are_two_installations(tmp_path: Path) -> None:
    assert installation_id(tmp_path / "a") != installation_id(tmp_path / "b")


def test_what_is_no_id_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "installation").write_text("../../etc")
    with pytest.raises(OSError, match="holds no id"):
        installation_id(tmp_path)


def test_one_database_has_it(tmp_path: Path) -> None:
    installation_id(tmp_path)
    assert not is_claimed(tmp_path)
    assert claim(tmp_path)
    assert is_claimed(tmp_path)
    assert not claim(tmp_path)
