"""What the engines of this host say while somebody waits for an answer of the jobs API."""

from __future__ import annotations

import time
from collections.abc import Callable

from nemo_airflow_provider.backends.base import Backend
from nemo_airflow_provider.backends.powers import GpuBoard, OverEngine, SupportsGpus, SupportsProbe
from nemo_airflow_provider.backends.registry import BACKENDS, create_backend
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.hooks.site import site_by
from nemo_airflow_provider.profiles import PlatformConfig, Profile
from nemo_airflow_provider.service.questions import Questions, Unanswered

#: An engine that answered so many seconds ago, and is slow now, has much to do and is not gone.
_TRUSTED_SECONDS = 60.0


class Engines:
    """Asks engines; a `Probe`. Only for processes on a host where steps run.

    :param create: makes the backend of a profile
    """

    def __init__(
        self,
        questions: Questions | None = None,
        create: Callable[[Profile, PlatformConfig], Backend] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._questions = questions or Questions()
        self._create = create or _created
        self._clock = clock
        self._answered: dict[str, float] = {}

    def answers(self, profile: Profile, platform: PlatformConfig) -> bool:
        """Whether the profile's engine answers now; what cannot be asked is believed to."""
        backend = self._create(profile, platform)
        if not isinstance(backend, SupportsProbe):
            return True
        key = self._key("probe", backend, platform)
        try:
            self._questions.ask(key, _named(backend), backend.probe)
        except Unanswered:
            return self._clock() - self._answered.get(key, float("-inf")) < _TRUSTED_SECONDS
        except BackendError:
            return False
        self._answered[key] = self._clock()
        return True

    def lacks_gpus(self, profile: Profile, platform: PlatformConfig) -> bool:
        """Whether it is known that jobs can have no GPU there."""
        backend = self._create(profile, platform)
        if not isinstance(backend, SupportsGpus):
            return False
        try:
            return not self._questions.ask(
                self._key("has gpus", backend, platform), "NVIDIA's driver", backend.has_gpus
            )
        except BackendError:
            return False  # the step finds out

    def gpus(self, profile: Profile, platform: PlatformConfig) -> GpuBoard:
        """The GPUs of the profile's engine.

        :raises BackendError: it does not answer
        """
        backend = self._create(profile, platform)
        assert isinstance(backend, SupportsGpus), "callers ask the registry"
        return self._questions.ask(self._key("gpus", backend, platform), _named(backend), backend.gpus)

    def scope(self, profile: Profile, platform: PlatformConfig) -> str:
        """Which engine gives steps of the profile GPUs: several profiles may share one."""
        backend = self._create(profile, platform)
        assert isinstance(backend, SupportsGpus), "callers ask the registry"
        return backend.scope()

    @staticmethod
    def _key(what: str, backend: OverEngine, platform: PlatformConfig) -> str:
        return f"{what} of {backend.scope()} for {platform.docker.reserved_gpu_device_ids}"


def _created(profile: Profile, platform: PlatformConfig) -> Backend:
    # Here, since nobody counts the seconds yet: what is imported first may take longer than an engine has.
    BACKENDS[profile.backend].load_packages()
    return create_backend(profile, site_by(platform))


def _named(backend: OverEngine) -> str:
    return f"the engine ({backend.scope()})"


#: Those of this process.
ENGINES = Engines()
