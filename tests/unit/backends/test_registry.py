"""The list of backends, and making one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nemo_airflow_provider.backends import registry
from nemo_airflow_provider.backends.base import BackendConfig, Site
from nemo_airflow_provider.backends.registry import BACKENDS, BackendEntry, Lack, create_backend
from nemo_airflow_provider.errors import Unavailable
from nemo_airflow_provider.profiles import Profile

PACKAGE = Path(registry.__file__).parent
SITE = Site(connect=lambda kind, connection: None)


def test_every_backend_has_what_its_entry_promises() -> None:
    for name, entry in BACKENDS.items():
        assert entry.name == name
        assert (PACKAGE / name / "config.py").is_file()
        assert issubclass(entry.config_class, BackendConfig)
        assert entry.config_path.endswith(entry.config_class.__name__)
        assert (entry.extra is None) == (entry.packages == ())


def test_operators_and_requirements() -> None:
    assert [(entry.operator, entry.requirement) for entry in BACKENDS.values()] == [
        ("DockerStepOperator", "nemo-airflow-provider[docker]"),
        ("KubernetesJobStepOperator", "nemo-airflow-provider[kubernetes]"),
        ("VolcanoJobStepOperator", "nemo-airflow-provider[kubernetes]"),
        ("SubprocessStepOperator", "nemo-airflow-provider"),
    ]


def test_accepted_pairs() -> None:
    assert {name: entry.providers for name, entry in BACKENDS.items()} == {
        "docker": ("cpu", "gpu"),
        "kubernetes_job": ("cpu", "gpu", "gpu_distributed"),
        "volcano_job": ("gpu_distributed",),
        "subprocess": ("subprocess",),
    }


def test_a_name_stands_only_in_its_folder_and_the_registry() -> None:
    """The backends whose names are no words of the contract's runtimes and providers."""
    for path in PACKAGE.parent.rglob("*.py"):
        inside = path.relative_to(PACKAGE.parent).parts
        if inside[:2] in (("backends", "volcano_job"), ("backends", "registry.py")) or inside[0] == "operators":
            continue
        assert "volcano" not in path.read_text().lower(), path


def test_importing_the_registry_imports_no_engine() -> None:
    code = (
        "import sys, nemo_airflow_provider.backends.registry as r; r.BACKENDS['docker'].provided;"
        "print([m for m in ('airflow', 'docker', 'kubernetes') if m in sys.modules],"
        " 'nemo_airflow_provider.backends.docker.config' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[] False"


class TestProvided:
    @pytest.fixture
    def package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A backends folder of our own with one toy backend."""
        folder = tmp_path / "toys"
        (folder / "toy").mkdir(parents=True)
        for directory in (folder, folder / "toy"):
            (directory / "__init__.py").touch()
        (folder / "toy" / "config.py").write_text(
            "from nemo_airflow_provider.backends.base import BackendConfig\nclass ToyConfig(BackendConfig): pass\n"
        )
        monkeypatch.setattr(registry, "_FOLDER", "toys")
        monkeypatch.syspath_prepend(str(tmp_path))
        yield folder / "toy"
        for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
            del sys.modules[name]

    def land(self, folder: Path) -> None:
        (folder / "backend.py").write_text(
            "from nemo_airflow_provider.backends.base import Backend\n"
            "class ToyBackend(Backend):\n"
            "    def __init__(self, config, site): self.config, self.site = config, site\n"
            "ToyBackend.__abstractmethods__ = frozenset()\n"
        )

    def test_not_before_its_code_is_there(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        others = [SimpleNamespace(name="other", provided=True), SimpleNamespace(name="third", provided=False)]
        monkeypatch.setattr(registry, "BACKENDS", {entry.name: entry for entry in others})
        entry = BackendEntry("toy", "Toy", ("cpu",))
        assert entry.backend_path is None
        assert not entry.provided
        reason = "this version lists backend 'toy' and cannot run it"
        assert entry.lack == Lack(reason, "Use profiles of another backend: other")
        self.land(package)
        import importlib

        importlib.invalidate_caches()
        assert entry.backend_path == "toys.toy.backend.ToyBackend"
        assert entry.provided

    def test_not_without_its_packages(self, package: Path, tmp_path: Path) -> None:
        self.land(package)
        (tmp_path / "bare_directory").mkdir()
        complete = BackendEntry("toy", "Toy", ("cpu",), "x", ("json",))
        assert (complete.provided, complete.lack) == (True, None)
        for package in ("no_such_package_xyz", "bare_directory"):
            entry = BackendEntry("toy", "Toy", ("cpu",), "x", ("json", package))
            assert not entry.provided
            reason = f"backend 'toy' needs the Python package {package}, which is not installed"
            assert entry.lack == Lack(reason, "pip install 'nemo-airflow-provider[x]'")

    def test_create_hands_over_the_config_and_the_site(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.land(package)
        entry = BackendEntry("toy", "Toy", ("cpu",))
        monkeypatch.setitem(BACKENDS, "toy", entry)
        config = entry.config_class(ttl_seconds_active=3)
        backend = create_backend(Profile("cpu", "default", "toy", config), SITE)
        assert (backend.config, backend.site) == (config, SITE)  # type: ignore[attr-defined]

    def test_create_says_what_to_install(self, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = BackendEntry("toy", "Toy", ("cpu",), "toys", ("json",))
        monkeypatch.setitem(BACKENDS, "toy", entry)
        with pytest.raises(Unavailable, match=r"backend 'toy'\. Install nemo-airflow-provider\[toys\]\."):
            create_backend(Profile("cpu", "default", "toy", entry.config_class()), SITE)
