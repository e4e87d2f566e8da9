"""What goes wrong with one thing keeps no other from being swept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nemo_airflow_provider.errors import NemoJobsError

log = logging.getLogger(__name__)


@contextmanager
def left_for_next(what: str, leave: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Tell what fails in the block, and go on behind it: the next sweep does it.

    Everything is caught. Engines, Airflow's tables and DAGs of an older version hold what nobody foresees, and it
    comes back at each sweep: it would keep all the others from being swept for ever.

    :param what: a noun, for the log
    :param leave: called when it fails
    """
    try:
        yield
    except Exception as error:
        told = str(error) if isinstance(error, NemoJobsError | OSError) else f"{type(error).__name__}: {error}"
        log.warning("%s is left for the next sweep: %s", what, told)
        leave()
        log.debug("It came from here:", exc_info=True)
