"""Files that a workload leaves in its ephemeral storage, for whoever goes on with them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import PurePosixPath

from nemo_airflow_provider.backends.subprocess.reach import below, is_absent, open_regular
from nemo_airflow_provider.backends.subprocess.workdir import WorkDirectory


def read_file(work: WorkDirectory, path: str, most_bytes: int) -> bytes | None:
    """The beginning of a regular file below the scratch directory; None when there is none. Links are not followed.

    :raises OSError: the system refuses it for another reason
    """
    *folders, name = PurePosixPath(path).parts
    with ExitStack() as held:
        try:
            directory = work.descriptor
            for folder in (work.place.scratch.name, *folders):
                directory = held.enter_context(below(directory, folder))
            file = open_regular(directory, name, os.O_RDONLY)
        except OSError as error:
            if is_absent(error):
                return None
            raise
        with os.fdopen(file, "rb") as reader:
            return reader.read(most_bytes)
