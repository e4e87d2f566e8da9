"""How a sweep's task proves to the API server that it is one: a secret, and its hash in the task's own state store.

Only Airflow's execution API lets a task write there, and whoever may change that task instance by hand.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass

#: Key in the state store of the task instance.
CREDENTIAL_KEY = "credential"
_KIND = "nemo-sweep"


@dataclass(frozen=True, slots=True)
class Credential:
    """A claim to be one task instance of the sweep's DAG."""

    run_id: str
    task_id: str
    secret: str

    @classmethod
    def make(cls, run_id: str, task_id: str) -> Credential:
        """A new one."""
        return cls(run_id, task_id, secrets.token_urlsafe(32))

    @property
    def token(self) -> str:
        """What is sent, as a bearer token."""
        return ".".join((_KIND, _encoded(self.run_id), _encoded(self.task_id), self.secret))

    @property
    def digest(self) -> str:
        """What is stored."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def matches(self, stored: object) -> bool:
        """Whether the state store holds this credential's digest."""
        return isinstance(stored, str) and hmac.compare_digest(stored.encode(), self.digest.encode())


def read_token(token: str) -> Credential | None:
    """A credential that was sent; None for anything else."""
    kind, *parts = token.split(".")
    if kind != _KIND or len(parts) != 3 or not all(parts):
        return None
    try:
        return Credential(_decoded(parts[0]), _decoded(parts[1]), parts[2])
    except (ValueError, binascii.Error):
        return None


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
