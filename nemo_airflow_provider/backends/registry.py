"""The one list of backends: a name, what its folder holds and which packages it needs.

Everything of a backend is imported when asked for, so this module is cheap to import. Classes are found by
the folder's name and the entry's stem: `<stem>Config` in `config.py`, `<stem>Backend` in `backend.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from nemo_airflow_provider.backends.base import Backend, BackendConfig, Site
from nemo_airflow_provider.errors import Unavailable

_FOLDER = "nemo_airflow_provider.backends"
_DISTRIBUTION = "nemo-airflow-provider"

#: Backend of a profile entry that has a `config` and no `backend` (configuration contract §3).
DEFAULT_BACKEND = "docker"

#: Backends of upstream that this product leaves out: their entries are skipped, not refused.
LEFT_OUT = ("e2e", "openshell")


@dataclass(frozen=True, slots=True)
class Lack:
    """Why an installation cannot run steps of a backend, and what to do about it; without a full stop."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class BackendEntry:
    """One backend.

    :param name: value of `backend` in a profile entry, and the folder's name
    :param stem: what its classes' names begin with
    :param providers: executor providers it accepts; the first is the default of its profile entries
    :param extra: the distribution's extra that installs what it needs
    :param packages: packages of that extra that it imports
    """

    name: str
    stem: str
    providers: tuple[str, ...]
    extra: str | None = None
    packages: tuple[str, ...] = ()

    @property
    def operator(self) -> str:
        """Class name of the Airflow operator of its steps."""
        return f"{self.stem}StepOperator"

    @property
    def config_path(self) -> str:
        """Dotted path of its config class."""
        return f"{_FOLDER}.{self.name}.config.{self.stem}Config"

    @property
    def backend_path(self) -> str | None:
        """Dotted path of its backend class, or None while its folder has none."""
        module = f"{_FOLDER}.{self.name}.backend"
        return f"{module}.{self.stem}Backend" if _importable(module) else None

    @property
    def provided(self) -> bool:
        """Whether this installation can run its steps: its code and what the extra installs are there."""
        return self.backend_path is not None and not self._missing_packages

    @property
    def lack(self) -> Lack | None:
        """What keeps this installation from running its steps; None where it can. Asks no engine."""
        if self.backend_path is None:
            able = ", ".join(entry.name for entry in BACKENDS.values() if entry.provided)
            reason = f"this version lists backend '{self.name}' and cannot run it"
            return Lack(reason, f"Use profiles of another backend: {able}")
        if missing := self._missing_packages:
            return Lack(
                f"backend '{self.name}' needs the Python package {', '.join(missing)}, which is not installed",
                f"pip install '{self.requirement}'",
            )
        return None

    @property
    def _missing_packages(self) -> list[str]:
        return [package for package in self.packages if not _importable(package)]

    @property
    def requirement(self) -> str:
        """What to install to have it."""
        return f"{_DISTRIBUTION}[{self.extra}]" if self.extra else _DISTRIBUTION

    @cached_property
    def config_class(self) -> type[BackendConfig]:
        """Class of its profiles' `config`."""
        found = _load(self.config_path)
        assert isinstance(found, type) and issubclass(found, BackendConfig)
        return found

    def has(self, power: type) -> bool:
        """Whether its backend has a power (`backends.powers`). Ask only what is provided here."""
        return self.backend_path is not None and issubclass(_load(self.backend_path), power)

    def load(self) -> None:
        """Import its classes now, as far as this installation has them."""
        _ = self.config_class
        if self.provided and (path := self.backend_path):
            _load(path)

    def load_packages(self) -> None:
        """Import what its extra installs now, which may take a second; only where it is provided."""
        for package in self.packages:
            import_module(package)


_ENTRIES = (
    # The order is that of the built-in profiles in the listing (configuration contract §7).
    BackendEntry("docker", "Docker", ("cpu", "gpu"), "docker", ("docker", "pynvml")),
    BackendEntry("kubernetes_job", "KubernetesJob", ("cpu", "gpu", "gpu_distributed"), "kubernetes", ("kubernetes",)),
    BackendEntry("volcano_job", "VolcanoJob", ("gpu_distributed",), "kubernetes", ("kubernetes",)),
    BackendEntry("subprocess", "Subprocess", ("subprocess",)),
)

BACKENDS: dict[str, BackendEntry] = {entry.name: entry for entry in _ENTRIES}


class ConfiguredProfile(Protocol):
    """What of a profile a backend is made from."""

    @property
    def backend(self) -> str:
        """Name in `BACKENDS`."""

    @property
    def config(self) -> BackendConfig:
        """Its validated keys."""


def create_backend(profile: ConfiguredProfile, site: Site) -> Backend:
    """The backend of a profile.

    :param site: the installation that it is of
    :raises Unavailable: this installation does not provide it
    """
    entry = BACKENDS[profile.backend]
    path = entry.backend_path
    if path is None or not entry.provided:
        raise Unavailable(f"This installation does not provide backend '{entry.name}'. Install {entry.requirement}.")
    backend = _load(path)(profile.config, site)
    assert isinstance(backend, Backend)
    return backend


def _load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _importable(module: str) -> bool:
    # A spec without origin is a bare directory of that name somewhere on the path, not the package.
    spec = find_spec(module)
    return spec is not None and spec.origin is not None
