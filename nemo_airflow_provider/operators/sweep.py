"""The operator of the sweep's DAG: one sweep through what this worker reaches."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowRuntimeError
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from nemo_airflow_provider import settings
from nemo_airflow_provider.errors import NemoJobsError, Unavailable
from nemo_airflow_provider.hooks.site import site_of
from nemo_airflow_provider.installation import installation_id
from nemo_airflow_provider.operators.host import sure_value
from nemo_airflow_provider.sweep import SWEEP_DAG_ID
from nemo_airflow_provider.sweep.credential import CREDENTIAL_KEY, Credential
from nemo_airflow_provider.sweep.engines import swept_engines
from nemo_airflow_provider.sweep.host import HostSweep
from nemo_airflow_provider.sweep.remote import RemoteOffice

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Task logs of the sweep itself are kept on the worker for so long.
_LOG_SECONDS = 7200.0


class SweepOperator(BaseOperator):  # type: ignore[misc]
    """Sweeps the engines of some profiles.

    :param profiles: `provider/name` of each
    :param chores: whether this task also sees to what needs no engine
    """

    template_fields: Sequence[str] = ()
    ui_color = "#e8e8e8"

    def __init__(self, *, profiles: Sequence[str], chores: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.profiles = list(profiles)
        self.chores = chores

    def execute(self, context: Context) -> None:
        """One sweep; what it cannot do is done by the next."""
        _remove_old_logs()
        credential = Credential.make(context["dag_run"].run_id, context["ti"].task_id)
        store = context["task_state_store"]
        try:
            store.set(CREDENTIAL_KEY, credential.digest, retention=NEVER_EXPIRE)
            self._sweep(credential, lambda key: sure_value(key, lambda: _check(store)))
        except (NemoJobsError, OSError, AirflowRuntimeError) as error:
            raise AirflowFailException(str(error)) from None

    def _sweep(self, credential: Credential, variable: Callable[[str], str | None]) -> None:
        storage = settings.storage()
        installation = installation_id(storage)
        undone = None
        with RemoteOffice(settings.api_url(), credential, installation) as office:
            if self.chores:
                # Engines are swept all the same: chores may take longer than is waited for, or fail at each sweep.
                try:
                    self._note("Chores", office.chores())
                except Unavailable as error:
                    undone = error
            profiles = settings.profiles()
            engines = swept_engines(profiles.profiles, site_of(profiles), self.profiles)
            self._note("Engines", HostSweep(office, installation, storage, variable).run(engines))
        if undone is not None:
            raise undone

    def _note(self, what: str, done: Any) -> None:
        told = ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in done.items() if count)
        self.log.info("%s: %s", what, told or "nothing to do")


def _check(store: Any) -> None:
    """That the task's state store answers, and so the API server and the database behind it.

    :raises Unavailable: it does not
    """
    try:
        known = store.get(CREDENTIAL_KEY)
    except AirflowRuntimeError as error:
        raise Unavailable(f"The state store does not answer: {error}") from error
    if known is None:
        raise Unavailable("Airflow does not know this sweep any more; the next one goes on.")


def _remove_old_logs() -> None:
    """Airflow keeps the log of every task for ever; 1440 a day of this one help nobody."""
    folder = Path(conf.get("logging", "base_log_folder")) / f"dag_id={SWEEP_DAG_ID}"
    oldest = time.time() - _LOG_SECONDS
    with suppress(OSError):
        for run in list(folder.iterdir()):
            if run.name.startswith("run_id=") and run.stat().st_mtime < oldest:
                shutil.rmtree(run, ignore_errors=True)
