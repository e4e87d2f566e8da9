"""The record in the task's state store: claimed before anything is done, kept up to date as well as can be."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from nemo_airflow_provider.client.position import LogPosition
from nemo_airflow_provider.remote.naming import Caller, derived_name, numbered_name
from nemo_airflow_provider.remote.record import RECORD_KEY, RemoteRecord, parse_record
from nemo_airflow_provider.runner import StepHost, StoreUnavailable
from nemo_airflow_provider.runner.task import STORE_RETRY_SECONDS, insist


class Memory:
    """Reads and writes the record of one task instance."""

    def __init__(self, host: StepHost, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._not_before = 0.0
        #: What is known of the job; None before `claim`.
        self.known: RemoteRecord | None = None

    @property
    def record(self) -> RemoteRecord:
        """What is known of the job; `claim` comes first."""
        assert self.known is not None, "nothing was claimed"
        return self.known

    def former(self, caller: Caller) -> RemoteRecord | None:
        """The job of an earlier generation that was the last one, if this generation has none yet."""
        stored = self._stored()
        return stored if stored is not None and stored.generation != caller.generation else None

    def claim(self, caller: Caller, name: str | None, workspace: str) -> None:
        """Take over the record of this generation, or write its first one. No side effect comes before this.

        :param name: of the job; None: one that follows from the caller
        :raises InvalidJob: a name that is none
        :raises Superseded: another try has taken over
        :raises StepLeft: the state store did not answer until this process had to go
        """
        stored = self._stored()
        if stored is None or stored.generation != caller.generation:
            ordinal = stored.ordinal + 1 if stored else 1
            stored = RemoteRecord(
                generation=caller.generation,
                ordinal=ordinal,
                name=derived_name(caller) if name is None else numbered_name(name, ordinal),
                workspace=workspace,
                mark=secrets.token_hex(16),
            )
        # Written in any case: only a write tells a try that another one has taken over.
        self.known = stored
        self.insist()

    def submitted(self, job: Mapping[str, Any], moment: str) -> None:
        """The server has the job.

        :param moment: now, ISO 8601 with a zone
        """
        self._change(state="submitted", id=job.get("id"), submitted_at=moment)
        self.insist()

    def writing(self, position: LogPosition) -> None:
        """Lines up to there are about to be written to the task log."""
        self._change(writing_to=position.given)
        self._publish()

    def written(self, position: LogPosition) -> None:
        """Lines up to there are in the task log."""
        self._change(position=position.dump(), writing_to=None)
        self._publish()

    def insist(self) -> None:
        """Write the record; come back only when it is stored.

        :raises Superseded: another try has taken over
        :raises StepLeft: see `claim`
        """
        insist(self._host, lambda: self._host.save(RECORD_KEY, self.record.dump()))

    def _stored(self) -> RemoteRecord | None:
        return parse_record(insist(self._host, lambda: self._host.load(RECORD_KEY)))

    def _change(self, **changes: Any) -> None:
        self.known = RemoteRecord.model_validate(self.record.model_dump() | changes)

    def _publish(self) -> None:
        """Write if the store answers; lines that a later try writes again are better than a task that stops."""
        if self._clock() < self._not_before:
            return
        try:
            self._host.save(RECORD_KEY, self.record.dump())
        except StoreUnavailable:
            self._not_before = self._clock() + STORE_RETRY_SECONDS
