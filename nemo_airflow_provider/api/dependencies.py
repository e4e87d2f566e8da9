"""What routes are given: who asks, and the service for them. Identity is Airflow's; `X-NHX-*` headers are nothing."""

# No `from __future__ import annotations`: FastAPI reads these annotations.
import os
from dataclasses import dataclass
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, Request

from nemo_airflow_provider import settings
from nemo_airflow_provider.profiles import ProfileSet, load_profiles
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.airflow import AirflowGateway
from nemo_airflow_provider.service.control import Control
from nemo_airflow_provider.service.creation import Creation
from nemo_airflow_provider.service.gateway import Caller
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
    def logs(self) -> Logs:
        """Logs."""
        return Logs(self.lookup, self.access, settings.storage())

    def creation(self, profiles: ProfileSet) -> Creation:
        """Create."""
        return Creation(self.gateway, self.access, self.caller, profiles)


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

    :raises ConfigError: the file is broken; the answer is 503 with what is wrong
    """
    answers = _docker_answers if settings.probe_engines() else None
    return load_profiles(settings.config_file(), environ=os.environ, docker_answers=answers)


def _docker_answers() -> bool:
    """Whether a Docker engine listens here."""
    import socket

    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        return True  # a remote engine: steps report what it answers
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(host.removeprefix("unix://"))
        except OSError:
            return False
    return True


ServicesDep = Annotated[Services, Depends(services)]
ProfilesDep = Annotated[ProfileSet, Depends(profiles)]
