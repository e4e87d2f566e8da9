"""What is remembered of a task's job between tries, in the task's state store."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ValidationError

from nemo_airflow_provider.client.position import LogPosition

#: Key of the record in the task state store.
RECORD_KEY = "nemo_job"


class RemoteRecord(BaseModel):
    """The job of one generation; a later generation takes its place.

    :param generation: see `naming.Caller`
    :param ordinal: how many generations of the task had a job, with this one
    :param mark: a random word that its job carries: by it the job is known as this task's
    :param state: `submitting` is written before the server is asked, `submitted` after it has answered
    :param id: the job's id, once it is known
    :param submitted_at: when the job was made
    :param position: `LogPosition.dump` of the lines that are in the task log
    :param writing_to: number of the last line of those that are being written; None when none are
    """

    model_config = {"extra": "ignore"}

    generation: int
    ordinal: int
    name: str
    workspace: str
    mark: str
    state: Literal["submitting", "submitted"] = "submitting"
    id: str | None = None
    submitted_at: AwareDatetime | None = None
    position: dict[str, Any] | None = None
    writing_to: int | None = None

    @property
    def log_position(self) -> LogPosition:
        """Where the log goes on; its start when what is stored means nothing: people can write there too."""
        try:
            return LogPosition.parse(self.position)
        except ValueError:
            return LogPosition()

    def dump(self) -> dict[str, Any]:
        """Plain data."""
        return self.model_dump(mode="json", exclude_none=True)


def parse_record(value: Any) -> RemoteRecord | None:
    """A stored record; None for what is none."""
    try:
        return RemoteRecord.model_validate(value)
    except ValidationError:
        return None
