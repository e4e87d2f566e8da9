"""Reading an Airflow Variable through Airflow's secrets backends, in the order Airflow asks them.

Not `Variable.get`: it takes a backend that fails for one that has nothing, and writes the error to the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from airflow.sdk.exceptions import AirflowSecretsBackendAccessDenied

from nemo_airflow_provider.errors import NemoJobsError, Unavailable

log = logging.getLogger(__name__)


def look_up(backends: Iterable[Any], ask: Callable[[Any], str | None]) -> str | None:
    """The Variable's value, or None when no backend has it or one says that it is not ours to read.

    :param ask: reads the Variable from one backend
    :raises Unavailable: no backend has it, and one of them failed
    :raises NemoJobsError: what `ask` raises of ours
    """
    failed = None
    for backend in backends:
        try:
            value = ask(backend)
        except (NemoJobsError, AirflowSecretsBackendAccessDenied) as error:
            if isinstance(error, NemoJobsError):
                raise
            return None
        except NotImplementedError:
            continue  # it has Connections alone
        except Exception as error:
            # Of a foreign error only the kind is told: its text may hold anything.
            failed = f"Airflow's secrets backend {type(backend).__name__} failed: {type(error).__name__}"
            log.warning("%s", failed)
            continue
        if value is not None:
            return value
    if failed is not None:
        raise Unavailable(failed)
    return None
