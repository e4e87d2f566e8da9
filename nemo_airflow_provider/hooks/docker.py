"""An Airflow connection of type `docker` → the way to an engine and its registries.

The type is that of Airflow's Docker provider: host, login and password are those of a registry. The engine is named in
the extra, by the names of that provider's operator: `docker_url`, `tls_ca_cert`, `tls_client_cert`, `tls_client_key`,
`tls_verify`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.docker.access import SOCKET, Access, Login
from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from airflow.sdk import Connection

_TLS = ("tls_ca_cert", "tls_client_cert", "tls_client_key")
_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0")
#: Upstream's variables of a registry (configuration contract §5.1).
_REGISTRY = "NEMO_JOBS_IMAGE_REGISTRY"


def connect(connection_id: str | None) -> Access:
    """The way to the engine that a profile names.

    :param connection_id: of the connection; None: the host's own engine, which `DOCKER_HOST` and its siblings may name
    :raises BackendError: there is no such connection, or its extra cannot be right
    """
    logins = _login_of_environment()
    if connection_id is None:
        return _own(logins)
    connection = _found(connection_id)
    extra = connection.extra_dejson
    if connection.host and connection.login:
        registry = _bare(connection.host) + (f":{connection.port}" if connection.port else "")
        logins[registry] = Login(connection.login, connection.password or "")
    url = extra.get("docker_url")
    if not url:
        if given := [name for name in _TLS if extra.get(name)]:
            raise BackendError(
                f"Connection '{connection_id}': its extra has {', '.join(given)} and no docker_url; name the engine "
                "there, such as tcp://host:2376."
            )
        own = _own(logins)
        return Access(own.url, own.tls, logins, connection_id)
    return Access(str(url), _tls(connection_id, str(url), extra), logins, connection_id)


def _found(connection_id: str) -> Connection:
    from airflow.sdk.bases.hook import BaseHook

    try:
        return BaseHook.get_connection(connection_id)
    except Exception as error:  # Airflow's own class for it has moved more than once
        raise BackendError(
            f"Airflow connection '{connection_id}', which the profile's docker_conn_id names, cannot be had: {error}"
        ) from error


def _own(logins: Mapping[str, Login]) -> Access:
    from docker.errors import TLSParameterError
    from docker.utils import kwargs_from_env

    try:
        found = kwargs_from_env()
    except TLSParameterError as error:
        place = os.environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")
        raise BackendError(
            "The variables DOCKER_TLS_VERIFY and DOCKER_CERT_PATH ask for TLS with the Docker engine, and "
            f"{place} has not all of ca.pem, cert.pem and key.pem."
        ) from error
    return Access(found.get("base_url") or SOCKET, found.get("tls") or None, logins)


def _tls(connection_id: str, url: str, extra: Mapping[str, Any]) -> Any:
    """What the client shows to the engine and asks of it; None: the address alone says whether there is TLS.

    Without an authority the engine's certificate is one of those that `requests` believes; without a certificate of the
    client's own it shows none.
    """
    from docker.errors import TLSParameterError
    from docker.tls import TLSConfig

    given = {name: extra[name] for name in _TLS if extra.get(name)}
    verify = _boolean(connection_id, "tls_verify", extra.get("tls_verify"))
    if not given and not _is_tls_alone(url, verify):
        return None
    if url.strip().lower().startswith("http://"):
        raise BackendError(
            f"Connection '{connection_id}': its extra asks for TLS, and its docker_url begins with http://, which has "
            "none; write tcp:// or https://."
        )
    if wrong := [name for name, path in given.items() if not _is_readable(path)]:
        raise BackendError(
            f"Connection '{connection_id}': {', '.join(wrong)} in its extra must be the path of a file on the worker "
            "that the worker's user may read."
        )
    authority, certificate, key = (given.get(name) for name in _TLS)
    if (certificate is None) != (key is None):
        raise BackendError(
            f"Connection '{connection_id}': its extra has one of tls_client_cert and tls_client_key; the engine needs "
            "both or neither."
        )
    try:
        return TLSConfig(
            client_cert=(certificate, key) if certificate else None,
            ca_cert=authority,
            verify=True if verify is None else verify,
        )
    except TLSParameterError as error:  # a file that has gone this moment
        raise BackendError(f"Connection '{connection_id}': {error.msg}") from error


def _is_tls_alone(url: str, verify: bool | None) -> bool:
    """Whether there is TLS without a file of it: `tls_verify` asks for a check, or the address for TLS without one."""
    scheme = url.strip().partition("://")[0].lower()
    return (verify is True and scheme not in ("unix", "ssh")) or (verify is False and scheme == "https")


def _is_readable(path: object) -> bool:
    return isinstance(path, str) and os.path.isfile(path) and os.access(path, os.R_OK)


def _boolean(connection_id: str, name: str, value: object) -> bool | None:
    """As Airflow's Docker provider reads those of an extra; None: it does not say."""
    text = str(value).strip().lower()
    if value is None or text == "":
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise BackendError(f"Connection '{connection_id}': {name} in its extra is {value!r}; it is true or false.")


def _login_of_environment() -> dict[str, Login]:
    registry, user = os.environ.get(_REGISTRY), os.environ.get(f"{_REGISTRY}_USER_NAME")
    if not registry or not user:
        return {}
    return {_bare(registry): Login(user, os.environ.get(f"{_REGISTRY}_PASSWORD", ""))}


def _bare(registry: str) -> str:
    """A registry's host as it begins the name of an image."""
    return registry.split("://", 1)[-1].split("/", 1)[0]
