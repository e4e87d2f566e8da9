"""The way to a cluster, out of Airflow's connection and the process's environment."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from airflow.models.connection import Connection

from nemo_airflow_provider.backends.kube.access import Access
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.hooks.kubernetes import connect


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the developer's own cluster."""
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))


def kubeconfig(**servers: str) -> dict[str, Any]:
    """One context for each server; the first is the current one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(servers)),
        "clusters": [{"name": name, "cluster": {"server": server}} for name, server in servers.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "ann"}} for name in servers],
        "users": [{"name": "ann", "user": {"token": "t0ken"}}],
    }


TREE = kubeconfig(one="https://one:6443", two="https://two:6443")


def connected(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> Access:
    connection = Connection(conn_type="kubernetes", extra=json.dumps(extra))
    monkeypatch.setenv("AIRFLOW_CONN_LAB", connection.as_json())
    return connect("lab")


def told(monkeypatch: pytest.MonkeyPatch, **extra: Any) -> str:
    with pytest.raises(BackendError) as error:
        connected(monkeypatch, **extra)
    return str(error.value)


def test_a_kubeconfig_on_the_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(TREE))
    found = connected(monkeypatch, kube_config_path=str(path), namespace="ml")
    assert (found.shown_url, found.namespace, found.connection) == ("https://one:6443", "ml", "lab")
    assert found.configuration.auth_settings()["BearerToken"]["value"] == "Bearer t0ken"
    assert connected(monkeypatch, kube_config_path=str(path), cluster_context="two").shown_url == "https://two:6443"


@pytest.mark.parametrize("tree", [TREE, json.dumps(TREE)])
def test_a_kubeconfig_in_the_connection(monkeypatch: pytest.MonkeyPatch, tree: Any) -> None:
    assert connected(monkeypatch, kube_config=tree).shown_url == "https://one:6443"
    assert connected(monkeypatch, extra__kubernetes__kube_config=tree).shown_url == "https://one:6443"


def test_certificates_are_checked_unless_the_connection_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connected(monkeypatch, kube_config=TREE).configuration.verify_ssl is True
    assert connected(monkeypatch, kube_config=TREE, disable_verify_ssl="false").configuration.verify_ssl is True
    assert connected(monkeypatch, kube_config=TREE, disable_verify_ssl=True).configuration.verify_ssl is False


def test_connections_know_nothing_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    first = connected(monkeypatch, kube_config=TREE)
    second = connected(monkeypatch, kube_config=TREE, cluster_context="two", disable_verify_ssl=True)
    assert (first.shown_url, first.configuration.verify_ssl) == ("https://one:6443", True)
    assert second.shown_url == "https://two:6443"


def test_two_ways_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, in_cluster=True, kube_config=TREE) == (
        "Connection 'lab' has in_cluster and kube_config; only one of them can say where the cluster is."
    )


@pytest.mark.parametrize(
    "extra",
    [
        {"kube_config_path": "/no/such/file"},
        {"kube_config": "{"},
        {"kube_config": "[]"},
        {"kube_config": "words"},
        {"kube_config": TREE, "cluster_context": "three"},
        {"in_cluster": True},
        {},
    ],
)
def test_a_connection_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]) -> None:
    assert told(monkeypatch, **extra).startswith("Connection 'lab' does not say how to reach a cluster: ")


def test_what_is_shown_is_read_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the main thread out of the connection as it is then; in others out of files alone."""
    access = connected(monkeypatch, kube_config=json.dumps(TREE))
    changed = {**TREE, "users": [{"name": "ann", "user": {"token": "another"}}]}
    connected(monkeypatch, kube_config=json.dumps(changed))
    assert access.renew is not None
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(access.renew).result() is None
    renewed = access.renew()
    assert renewed is not None and "another" in str(renewed.api_key)
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(TREE))
    access = connected(monkeypatch, kube_config_path=str(path))
    path.write_text(json.dumps(changed))
    assert access.renew is not None
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(access.renew).result()
    assert found is not None and "another" in str(found.api_key)


def test_no_such_connection() -> None:
    with pytest.raises(BackendError, match="connection 'nowhere', which the profile's kubernetes_conn_id names"):
        connect("nowhere")


def test_the_workers_own_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(TREE))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    assert connect(None).shown_url == "https://one:6443"


def test_a_worker_without_any() -> None:
    with pytest.raises(BackendError) as error:
        connect(None)
    assert str(error.value).startswith("This worker does not say how to reach a cluster: ")
    assert str(error.value).endswith("by the profile's kubernetes_conn_id.")
