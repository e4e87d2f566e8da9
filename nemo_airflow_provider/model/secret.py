"""Secrets as they are written in a job and kept in Airflow; never their values (job specification contract §2, §5)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.spec import StepSpec

#: Key of the Airflow Variable that holds a secret: this, the workspace, a dot, and the secret's name.
VARIABLE_PREFIX = "nemo_secret."

_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")


@dataclass(frozen=True, slots=True, order=True)
class SecretName:
    """Names a secret of a workspace."""

    workspace: str
    name: str

    @property
    def variable(self) -> str:
        """Key of the Airflow Variable with its value. Neither part has a dot, so no two secrets share one."""
        return f"{VARIABLE_PREFIX}{self.workspace}.{self.name}"

    def __str__(self) -> str:
        """`workspace/name`, as `NEMO_JOB_SECRETS` and messages have it."""
        return f"{self.workspace}/{self.name}"


def secret_of(reference: str, workspace: str) -> SecretName | None:
    """What `name` or `workspace/name` means in a job of `workspace`; None when no secret can be called so."""
    owner, slash, name = reference.rpartition("/")
    if not slash:
        owner = workspace
    if not names.is_workspace(owner) or not _NAME.fullmatch(name):
        return None
    return SecretName(owner, name)


@dataclass(frozen=True, slots=True)
class SecretItem:
    """An item of a step's environment whose value is a secret.

    :param variable: the environment variable
    :param reference: the secret as it was written
    :param secret: what that means; None when no secret can be called so
    """

    variable: str
    reference: str
    secret: SecretName | None


def secret_items(step: StepSpec, workspace: str) -> list[SecretItem]:
    """The step's `from_secret` items, in order."""
    return [
        SecretItem(item.name, item.from_secret.name, secret_of(item.from_secret.name, workspace))
        for item in step.environment or []
        if item.from_secret is not None
    ]
