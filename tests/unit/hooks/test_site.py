from __future__ import annotations

from pathlib import Path

import pytest

from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.hooks.site import site_of
from nemo_airflow_provider.profiles import ProfileSet, load_profiles


def load(tmp_path: Path, text: str) -> ProfileSet:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    return load_profiles(path, environ={}, probe=None)


def test_an_installation_that_says_nothing(tmp_path: Path) -> None:
    site = site_of(load(tmp_path, "platform: {}\n"))
    assert (site.default_task_image, site.loopback_address, site.gpu_device_ids, site.lock_directory) == (
        "my-registry/nhx-tasks:local",
        None,
        None,
        None,
    )


def test_what_an_installation_says(tmp_path: Path) -> None:
    text = """\
platform:
  image_registry: nvcr.io/team
  image_tag: "25.11"
  loopback_address: 172.17.0.1
  docker:
    reserved_gpu_device_ids: "0, 3"
"""
    site = site_of(load(tmp_path, text))
    assert (site.default_task_image, site.loopback_address, site.gpu_device_ids) == (
        "nvcr.io/team/nhx-tasks:25.11",
        "172.17.0.1",
        (0, 3),
    )


@pytest.mark.parametrize(("ids", "expected"), [("none", ()), ("all", None), ("7", (7,))])
def test_gpus_that_jobs_may_use(tmp_path: Path, ids: str, expected: tuple[int, ...] | None) -> None:
    text = f"platform: {{docker: {{reserved_gpu_device_ids: '{ids}'}}}}\n"
    assert site_of(load(tmp_path, text)).gpu_device_ids == expected


def test_the_way_to_an_engine_is_looked_for_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_of(load(tmp_path, "platform: {}\n"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere.sock")
    found = site.connect("docker", None)
    assert isinstance(found, Access)
    assert found.url == "unix:///elsewhere.sock"
