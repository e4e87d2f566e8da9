"""An Airflow connection of type `kubernetes` → the way to a cluster.

The fields are those of Airflow's Kubernetes provider: `in_cluster`, `kube_config_path`, `kube_config`,
`cluster_context`, `namespace`, `disable_verify_ssl`. They are read here, since that provider's own hook takes seconds
to import, and switches the check of certificates off for all of a process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.kube.access import Access
from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from kubernetes.client import Configuration

#: Of these one says where the cluster is.
_WAYS = ("in_cluster", "kube_config_path", "kube_config")
_TRUE = ("y", "yes", "t", "true", "on", "1")
#: Names of fields before Airflow 2.3, which old connections still have.
_OLD_PREFIX = "extra__kubernetes__"


def connect(connection_id: str | None) -> Access:
    """The way to the cluster that a profile names.

    :param connection_id: of the connection; None: the cluster that the worker runs in, else its kubeconfig
    :raises BackendError: there is no such connection, or it does not say how
    """
    if connection_id is None:
        return Access(_own(), renew=_own)
    extra = _extra(connection_id)

    def configured() -> Configuration:
        return _configured(extra, f"Connection '{connection_id}'", extra.get("cluster_context"))

    def renewed() -> Configuration | None:
        # Airflow is asked in the main thread alone; others read the same files again, or leave it to that one.
        nonlocal extra
        if threading.current_thread() is threading.main_thread():
            with suppress(BackendError):  # what is known may lead to files that have changed
                extra = _extra(connection_id)
        elif extra.get("kube_config"):
            return None
        return configured()

    return Access(configured(), extra.get("namespace"), connection_id, renew=renewed)


def _own() -> Configuration:
    return _configured({}, "This worker", None)


def _extra(connection_id: str) -> dict[str, Any]:
    extra = _fields(_found(connection_id).extra_dejson)
    given = [name for name in _WAYS if extra.get(name)]
    if len(given) > 1:
        raise BackendError(
            f"Connection '{connection_id}' has {' and '.join(given)}; only one of them can say where the cluster is."
        )
    return extra


def _fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    named = {name.removeprefix(_OLD_PREFIX): value for name, value in extra.items()}
    named.update({name: value for name, value in extra.items() if not name.startswith(_OLD_PREFIX)})
    return {name: value for name, value in named.items() if value not in (None, "")}


def _found(connection_id: str) -> Connection:
    from airflow.sdk.bases.hook import BaseHook

    try:
        return BaseHook.get_connection(connection_id)
    except Exception as error:  # Airflow's own class for it has moved more than once
        raise BackendError(
            f"Airflow connection '{connection_id}', which the profile's kubernetes_conn_id names, cannot be had: "
            f"{error}"
        ) from error


def _configured(extra: Mapping[str, Any], whose: str, context: str | None) -> Configuration:
    import yaml
    from kubernetes import config
    from kubernetes.client import Configuration

    found = Configuration()
    try:
        if _is_true(extra.get("in_cluster")):
            config.load_incluster_config(client_configuration=found)
        elif path := extra.get("kube_config_path"):
            config.load_kube_config(config_file=path, client_configuration=found, context=context)
        elif given := extra.get("kube_config"):
            tree = given if isinstance(given, dict) else yaml.safe_load(given)
            config.load_kube_config_from_dict(tree, client_configuration=found, context=context)
        else:
            _load_own(found, context)
    except (config.ConfigException, OSError, yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        remedy = "" if extra else " Name an Airflow connection of type kubernetes by the profile's kubernetes_conn_id."
        words = " ".join(str(error).split()).rstrip(".")
        raise BackendError(f"{whose} does not say how to reach a cluster: {words}.{remedy}") from error
    if _is_true(extra.get("disable_verify_ssl")):
        found.verify_ssl = False
    return found


def _load_own(found: Configuration, context: str | None) -> None:
    """As Airflow's provider does where nothing is said."""
    from kubernetes import config

    try:
        config.load_incluster_config(client_configuration=found)
    except config.ConfigException:
        config.load_kube_config(client_configuration=found, context=context)


def _is_true(value: object) -> bool:
    return str(value).strip().lower() in _TRUE
