"""What a task's job is called on the other server. Names are those of `model.names`, in its smaller alphabet that
upstream's log store, containers and labels take too."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import astuple, dataclass

from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.model import names

_DIGEST_DIGITS = 12
_LONGEST = names.MAX_NAME_WITHOUT_OUTPUT_LOCATION
_NO_LETTER_FIRST = re.compile(r"^[^a-z]+")
_NOT_ALLOWED = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Caller:
    """One generation of one task instance.

    :param map_index: -1 for a task that is not mapped
    :param generation: another one after each clear, the same in all tries
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    generation: int


def derived_name(caller: Caller) -> str:
    """`<dag>-<task>-<12 hex>`, at most 51 characters; the digits tell callers apart, whatever was cut."""
    return _with_digest(f"{caller.dag_id}-{caller.task_id}", json.dumps(astuple(caller)))


def numbered_name(name: str, ordinal: int) -> str:
    """A given name for the first generation, `<name>-2`, `<name>-3` … for those that follow.

    :raises InvalidJob: it is no name of a job
    """
    if not names.is_name(name) or len(name) > _LONGEST:
        raise InvalidJob(
            f"'{name}' is no name for a job: 2 to {_LONGEST} characters, a small letter first, then small letters, "
            "digits and - . _ @ +, not two - in a row and none at the end. Without a name one is made from DAG, task "
            "and run."
        )
    if ordinal == 1:
        return name
    numbered = f"{name}-{ordinal}"
    return numbered if len(numbered) <= _LONGEST else _with_digest(name, numbered)


def _with_digest(text: str, identity: str) -> str:
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_DIGEST_DIGITS]
    readable = _NO_LETTER_FIRST.sub("", _NOT_ALLOWED.sub("-", text.lower())).strip("-")
    return f"{readable[: _LONGEST - _DIGEST_DIGITS - 1].rstrip('-') or 'job'}-{digest}"
