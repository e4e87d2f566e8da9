"""What routes are given: who asks, and the service for them. Identity is Airflow's; `X-NHX-*` headers are nothing."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, Request

from nemo_airflow_provider import settings
from nemo_airflow_provider.installation import installation_id
from nemo_airflow_provider.profiles import ProfileSet, load_profiles
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.airflow import AirflowGateway
from nemo_airflow_provider.service.control import Control
from nemo_airflow_provider.service.creation import Creation
from nemo_airflow_provider.service.engines import ENGINES
from nemo_airflow_provider.service.gateway import Caller
from nemo_airflow_provider.service.gpus import Gpus
from nemo_airflow_provider.service.joblog import Logs
from nemo_airflow_provider.service.listing import Listing
from nemo_airflow_provider.service.lookup import Lookup

_FORWARDED = ("authorization", "cookie")


@dataclass(frozen=True, slots=True)
class Services:
    """The service, for one authenticated caller."""

    gateway: AirflowGateway
    access: Access
    caller: Caller

    @property
    def lookup(self) -> Lookup:
        """Single reads."""
        return Lookup(self.gateway, self.access)

    @property
    def listing(self) -> Listing:
        """Lists."""
        return Listing(self.gateway, self.access, list(settings.workspaces()))

    @property
    def control(self) -> Control:
        """Pause, resume, cancel, delete."""
        return Control(self.gateway, self.access, self.caller, settings.storage())

    @property
    def gpus(self) -> Gpus:
        """GPUs of the engines."""
        engines = ENGINES if settings.probe_engines() else None
        return Gpus(self.gateway, self.access, engines, _installation())

    @property
    def logs(self) -> Logs:
        """Logs."""
        return Logs(self.lookup, self.access, settings.storage())

    def creation(self, profiles: ProfileSet) -> Creation:
        """Create."""
        return Creation(self.gateway, self.access, self.caller, profiles)


def _installation() -> str | None:
    """Whose jobs are ours; None where the storage does not say."""
    with suppress(OSError):
        return installation_id(settings.storage())
    return None


def services(request: Request, user: GetUserDep) -> Services:
    """Authenticates the request; every route depends on it."""
    headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    caller = Caller(user=user, name=user.get_name(), headers=headers)
    gateway = AirflowGateway()
    enter(request)
    return Services(gateway, Access(gateway, caller), caller)


def enter(request: Request) -> None:
    """It is known who asks, and the service gets to work."""
    request.state.nemo_entered = True


def has_entered(request: Request) -> bool:
    """Whether a request may have changed something; before `enter` it surely has not."""
    return bool(getattr(request.state, "nemo_entered", False))


def profiles(_services: Annotated[Services, Depends(services)]) -> ProfileSet:
    """The execution profiles as configured now.

    An engine that does not answer takes its profiles along, where this process may ask.

    :raises ConfigError: the file is broken; the answer is 503 with what is wrong
    """
    probe = ENGINES if settings.probe_engines() else None
    return load_profiles(settings.config_file(), environ=os.environ, probe=probe)


def configured_profiles(_services: Annotated[Services, Depends(services)]) -> ProfileSet:
    """The execution profiles as configured now, whatever engines say: for what runs already.

    :raises ConfigError: as `profiles`
    """
    return settings.profiles()


ServicesDep = Annotated[Services, Depends(services)]
ProfilesDep = Annotated[ProfileSet, Depends(profiles)]
ConfiguredProfilesDep = Annotated[ProfileSet, Depends(configured_profiles)]
