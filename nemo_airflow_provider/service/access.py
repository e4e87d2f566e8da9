"""Who may do what in which workspace (contract/choices: permissions).

A workspace that the caller may not read looks like one that does not exist. Questions are asked of the workspace's
anchor DAG and, once there is one, of the DAG of the job's shape.
"""

from __future__ import annotations

from collections.abc import Iterable

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import Forbidden, InvalidJob, NotFound
from nemo_airflow_provider.model import names
from nemo_airflow_provider.service.gateway import Caller, Gateway, Right

_VERBS = {
    Right.READ_LOGS: "read logs of",
    Right.CREATE: "create",
    Right.UPDATE: "change",
    Right.ANSWER: "answer the required actions of",
    Right.DELETE: "delete",
}


class Access:
    """The permission questions of one request."""

    def __init__(self, gateway: Gateway, caller: Caller) -> None:
        self._gateway = gateway
        self._caller = caller

    def readable(self, workspace: str) -> bool:
        """Whether the workspace exists for this caller."""
        return workspace in settings.workspaces() and self._gateway.allows(
            self._caller, Right.READ, names.anchor_dag_id(workspace)
        )

    def enter(self, workspace: str) -> None:
        """Check that the workspace is there for reading.

        :raises NotFound: unknown, or not for this caller
        """
        if not self.readable(workspace):
            raise NotFound(f"Workspace '{workspace}' not found")

    def enter_to_create(self, workspace: str) -> None:
        """Check that jobs may be created in the workspace.

        :raises InvalidJob: unknown, or not for this caller
        :raises Forbidden: readable, but not for creating
        """
        if not self.readable(workspace):
            raise InvalidJob(f"Workspace '{workspace}' does not exist. Please create the workspace first.")
        self.require(Right.CREATE, workspace, names.anchor_dag_id(workspace))

    def may(self, right: Right, workspace: str, dag_id: str) -> bool:
        """Whether both the workspace's anchor and the DAG of a shape grant a right."""
        asked = dict.fromkeys((names.anchor_dag_id(workspace), dag_id))
        return all(self._gateway.allows(self._caller, right, each) for each in asked)

    def require(self, right: Right, workspace: str, dag_id: str) -> None:
        """Check what `may` answers.

        :raises Forbidden: it is no
        """
        if self.may(right, workspace, dag_id):
            return
        wanted = " and ".join(dict.fromkeys((names.anchor_dag_id(workspace), dag_id)))
        raise Forbidden(
            f"You may read workspace '{workspace}' but not {_VERBS[right]} jobs there. "
            f"Ask for the right on the DAG {wanted}."
        )

    def visible(self, dag_ids: Iterable[str]) -> set[str]:
        """Those of the DAGs whose runs the caller may read."""
        return {dag_id for dag_id in set(dag_ids) if self._gateway.allows(self._caller, Right.READ, dag_id)}
