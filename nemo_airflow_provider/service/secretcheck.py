"""Whether a new job can have the secrets it names (job specification contract §3, row 5)."""

from __future__ import annotations

from collections.abc import Iterable

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import Conflict, Unavailable
from nemo_airflow_provider.model.secret import SecretName, secret_items
from nemo_airflow_provider.model.spec import StepSpec
from nemo_airflow_provider.service.access import Access
from nemo_airflow_provider.service.away import DatabaseAway
from nemo_airflow_provider.service.gateway import Gateway

SECRETS_TEXT = (
    "Unable to create job because one or more referenced secrets were not found or are not accessible. Verify each "
    "platform_spec secret reference uses the expected workspace/name and that you have access."
)


def require_secrets(gateway: Gateway, access: Access, workspace: str, steps: Iterable[StepSpec]) -> None:
    """Check that every secret the steps name is there, for jobs of the workspace and for the caller.

    One that is missing and one that may not be used get the same answer, which names none. What may not be used is not
    looked up, so nothing of the answer can depend on whether it exists.

    :raises Conflict: one is not
    :raises Unavailable: nobody can tell now
    :raises ConfigError: see `settings.secret_grants`
    """
    named = dict.fromkeys(item.secret for step in steps for item in secret_items(step, workspace))
    for secret in named:
        if not (
            secret is not None and _is_permitted(access, secret, workspace) and _is_there(gateway, secret, workspace)
        ):
            raise Conflict(SECRETS_TEXT)


def _is_there(gateway: Gateway, secret: SecretName, workspace: str) -> bool:
    try:
        return gateway.has_variable(secret.variable, workspace)
    except DatabaseAway:
        raise
    except Unavailable as error:
        raise Unavailable(f"{error}. No job was created; try again, or see the log of the API server.") from error


def _is_permitted(access: Access, secret: SecretName, workspace: str) -> bool:
    """The workspace may use it, and the caller may know the workspace it is of."""
    return settings.may_use(workspace, secret) and (secret.workspace == workspace or access.readable(secret.workspace))
