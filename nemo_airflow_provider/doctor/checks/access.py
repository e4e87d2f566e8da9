"""Who may do what: workspaces, and the auth manager that guards them."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_airflow_provider.doctor.facts import Installation
from nemo_airflow_provider.doctor.findings import Finding, error, fine, warning

_SIMPLE = "SimpleAuthManager"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_TRUE = frozenset({"t", "true", "1"})
_OTHER_MANAGER = "Use an auth manager with users, such as FAB or Keycloak: [core] auth_manager."


def workspaces(installation: Installation) -> Iterator[Finding]:
    """The option `[nemo] workspaces`."""
    found = installation.workspaces
    if found.problem is not None:
        yield error("workspaces", found.problem, "Correct [nemo] workspaces; until then there are no jobs at all.")
        return
    if found.restricted and _is_simple(installation):
        yield warning(
            "workspaces",
            f"access_control of {', '.join(found.restricted)} has no effect: Airflow's simple auth manager knows roles "
            "only.",
            _OTHER_MANAGER,
        )
    else:
        yield fine("workspaces", f"{', '.join(found.names)}.")


def users(installation: Installation) -> Iterator[Finding]:
    """Whether Airflow knows who asks."""
    if not _is_simple(installation):
        yield fine("users", f"{installation.option('core', 'auth_manager').rpartition('.')[2]} guards the API.")
        return
    if installation.option("core", "simple_auth_manager_all_admins").strip().lower() not in _TRUE:
        yield warning(
            "users",
            "Airflow's simple auth manager is made for trying: passwords in a file, roles for all workspaces alike.",
            _OTHER_MANAGER,
        )
        return
    host = installation.option("api", "host").strip()
    if host in _LOOPBACK:
        yield warning(
            "users",
            f"Everybody who reaches {host} is an administrator ([core] simple_auth_manager_all_admins).",
            "Fine on your own machine; otherwise switch it off.",
        )
    else:
        yield error(
            "users",
            "Everybody is an administrator ([core] simple_auth_manager_all_admins), and [api] host is "
            f"{host or '0.0.0.0'}: whoever reaches this host may run anything.",
            "Switch simple_auth_manager_all_admins off, or set [api] host to 127.0.0.1.",
        )


def _is_simple(installation: Installation) -> bool:
    return installation.option("core", "auth_manager").endswith(_SIMPLE)
