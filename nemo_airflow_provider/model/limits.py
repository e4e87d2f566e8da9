"""What of a job's body is bounded where it is read, so that a flood is refused before each part of it is looked at."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, FailFast, Field
from pydantic_core import PydanticKnownError

from nemo_airflow_provider.model import names

#: Each step is a task of one DAG. Beside a job of 200 every other job took 6 s longer, beside one of 100 it was 1 s.
MAX_STEPS = 100


def _name(value: str) -> str:
    # In pydantic's words, but not with its `pattern`: `$` would let a line end pass.
    if not names.is_name(value):
        raise PydanticKnownError("string_pattern_mismatch", {"pattern": names.NAME_PATTERN})
    return value


def _not_too_many(value: Any) -> Any:
    # Before each of them is looked at: what is wrong with a hundred thousand steps would fill the answer.
    if isinstance(value, list) and len(value) > MAX_STEPS:
        raise ValueError(
            f"A job has at most {MAX_STEPS} steps, and this one has {len(value)}. Split it into several jobs."
        )
    return value


#: A job's or a step's; in schemas, whose regular expressions end where the text does, the pattern says it all.
Name = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"pattern": names.NAME_PATTERN})]

#: Of a list whose length nobody limits the first wrong item is told: a report on each of a million takes a minute.
Words = Annotated[list[str], FailFast()]

#: On a list of steps.
NotTooMany = BeforeValidator(_not_too_many)
