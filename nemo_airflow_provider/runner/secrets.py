"""The secrets of one step: looked up when it starts, and hidden in all that is heard of it afterwards."""

from __future__ import annotations

import time
from collections.abc import Collection

from nemo_airflow_provider.errors import BackendError, ConfigError, StartError
from nemo_airflow_provider.logs.mask import Mask
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.secret import SecretItem, SecretName
from nemo_airflow_provider.runner.journal import Journal
from nemo_airflow_provider.runner.task import StepHost, StepTask, StoreUnavailable

#: Characters of a reference that is no name; it is as long as somebody likes.
_MAX_REFERENCE = 100


class StepSecrets:
    """Values stay in this object and the workload's environment; journal and task log learn to hide them.

    :param retry_seconds: between two questions to secrets backends that do not answer
    """

    def __init__(self, task: StepTask, host: StepHost, journal: Journal, retry_seconds: float) -> None:
        self._step = task.step.name
        self._workspace = task.workspace
        self._items = task.secrets
        self._may_use = task.may_use
        self._host = host
        self._journal = journal
        self._retry_seconds = retry_seconds
        self._values: set[str] = set()
        self._mask = None if self._items else Mask()
        self._next_look = 0.0
        #: Why it is not known yet what must be hidden.
        self.trouble: str | None = None

    def values(self) -> dict[str, str]:
        """Look the values up for a workload that is about to start.

        :return: values by environment variable
        :raises StartError: one cannot be had; the text says what to set
        :raises BackendError: nobody can tell now
        """
        named = [(item, self._permitted(item)) for item in self._items]
        found = {secret: self._value(secret, item.variable) for item, secret in named}
        self._hide(found.values())
        return {item.variable: found[secret] for item, secret in named}

    def mask(self) -> Mask | None:
        """Hides the values, those looked up again that an earlier try gave to the workload.

        A grant that has gone since does not matter here: nobody gets the value.

        :return: None as long as the secrets backends do not answer; `trouble` says why
        """
        if self._mask is None and time.monotonic() >= self._next_look:
            try:
                self._recall()
                self.trouble = None
            except StoreUnavailable as error:
                self.trouble = f"The output waits until it is known which secrets to hide in it. {error}"
            self._next_look = time.monotonic() + self._retry_seconds
        return self._mask

    def _recall(self) -> None:
        """Look up what must be hidden.

        :raises StoreUnavailable: nobody can tell now
        """
        secrets = {item.secret for item in self._items if item.secret is not None}
        found = {secret: self._host.variable(secret.variable) for secret in sorted(secrets)}
        self._hide([value for value in found.values() if value is not None])
        if gone := ", ".join(f"'{secret}'" for secret, value in found.items() if value is None):
            self._host.note(
                f"Step '{self._step}' was started with secrets that are gone: {gone}. Their values cannot be hidden in "
                "what it prints from now on."
            )

    def _hide(self, values: Collection[str]) -> None:
        self._values.update(values)
        self._mask = self._journal.mask = Mask(self._values)
        if self._mask.parts:
            self._host.hide(self._mask.parts)

    def _permitted(self, item: SecretItem) -> SecretName:
        """The secret an item names, if the job's workspace may use it."""
        if item.secret is None:
            shown = item.reference[:_MAX_REFERENCE]
            raise StartError(
                f"Step '{self._step}' refers to a secret as '{shown}' (for {item.variable}), which names none: write "
                "'name' or 'workspace/name', the name in letters, digits, '_' and '-'."
            )
        try:
            permitted = self._may_use(item.secret)
        except ConfigError as error:
            raise StartError(str(error)) from error
        if not permitted:
            raise StartError(
                f"Step '{self._step}' may not use the secret '{item.secret}' (for {item.variable}): [nemo] "
                f'secret_grants does not list ["{self._workspace}", "{item.secret}"].'
            )
        return item.secret

    def _value(self, secret: SecretName, variable: str) -> str:
        needs = f"Step '{self._step}' needs the secret '{secret}' (for {variable})"
        try:
            value = self._host.variable(secret.variable)
        except StoreUnavailable as error:
            raise BackendError(f"{needs}, and nobody can tell its value now. {error}") from error
        if value is None:
            raise StartError(
                f"{needs}, and there is none: set the Airflow Variable {secret.variable} and run the job again."
            )
        if flaw := flaw_in(value):
            raise StartError(f"{needs}, and {flaw}, which no environment can: mend the Airflow Variable.")
        return value
