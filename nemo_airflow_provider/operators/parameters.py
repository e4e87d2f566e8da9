"""What a DAG's author says of one step → a step of a job, checked when the DAG file is read as far as it is known.

A parameter that holds a template or the output of another task is known when the task runs, and is checked then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.model.jsonable import NotJson, check_size, jsonable
from nemo_airflow_provider.model.plain import flaw_in
from nemo_airflow_provider.model.secret import secret_of
from nemo_airflow_provider.model.spec import PROCESS_PROVIDER, StepSpec
from nemo_airflow_provider.operators.compute import check_provider, stored_resources
from nemo_airflow_provider.operators.conf import problems_of

#: A step that sets this variable has the storage that all steps of its run share.
STORAGE_VARIABLE = "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"

_STEP: TypeAdapter[StepSpec] = TypeAdapter(StepSpec)
_SHELL = ("sh", "-c")
#: Of a result file.
_MOST_PATH_BYTES = 255


@dataclass(frozen=True, slots=True)
class StepParameters:
    """The parameters of an operator that make a step; see `JobStepOperator`."""

    command: Any = None
    entrypoint: Any = None
    image: Any = None
    environment: Any = None
    compute_resources: Any = None
    config: Any = None
    job_storage: Any = None
    result_file: Any = None

    def check(self, provider: str) -> None:
        """Find what is wrong with the parameters that are known already.

        :raises InvalidJob: naming the parameter and what is allowed
        """
        for name, read in _READERS.items():
            value = getattr(self, name)
            if value is not None:
                check_value(name, value, read)
        if provider == PROCESS_PROVIDER:
            self._check_process()
        elif self.has("compute_resources") and _is_known(self.compute_resources):
            check_provider(self.compute_resources, provider)
        if _is_known([self.command, self.entrypoint]):
            self._words(provider)

    def has(self, name: str) -> bool:
        """Whether a parameter is given; not where that is known later."""
        value = getattr(self, name)
        return value is not None and not isinstance(value, Later)

    def _check_process(self) -> None:
        for name in ("image", "compute_resources"):
            if self.has(name):
                raise InvalidJob(
                    f"{name}: a step of provider '{PROCESS_PROVIDER}' is a process of the worker's host and has none. "
                    "Leave it out, or choose a profile of another provider."
                )

    def step(self, name: str, provider: str, profile: str) -> StepSpec:
        """The step, once everything is known.

        :param name: of the step
        :raises InvalidJob: naming the parameter and what is allowed
        """
        self.check(provider)
        executor: dict[str, Any] = {"provider": provider, "profile": profile}
        entrypoint, command = self._words(provider)
        if provider == PROCESS_PROVIDER:
            executor["command"] = [*entrypoint, *command]
        else:
            container = {"image": self.image, "entrypoint": entrypoint, "command": command}
            executor |= {"container": container, "resources": stored_resources(self.compute_resources or {})}
        environment = _environment(self.environment or {})
        if self.job_storage is not None:
            environment.append({"name": STORAGE_VARIABLE, "value": self.job_storage})
        given = {"name": name, "environment": environment, "config": _config(self.config or {}), "executor": executor}
        if (flaw := flaw_in(given)) is not None:
            raise InvalidJob(f"The step's parameters cannot be stored: {flaw}")
        try:
            return _STEP.validate_python(given)
        except ValidationError as error:
            raise InvalidJob(problems_of(error)) from None

    def _words(self, provider: str) -> tuple[list[str], list[str]]:
        """Entrypoint and command, a line of shell told apart."""
        entrypoint = _words("entrypoint", self.entrypoint) if self.entrypoint is not None else []
        if isinstance(self.command, str):
            if entrypoint:
                raise InvalidJob("command: with an entrypoint it is a list of words; a string is a line for `sh -c`.")
            return [*_SHELL], [self.command]
        command = _words("command", self.command) if self.command is not None else []
        if provider == PROCESS_PROVIDER and not [*entrypoint, *command]:
            raise InvalidJob("command: what the step runs, a list of words or a line for `sh -c`, is missing.")
        return entrypoint, command


PARAMETERS = tuple(field.name for field in fields(StepParameters))


class Later:
    """Stands for a parameter that is given when the task is mapped."""

    def iter_references(self) -> Iterator[tuple[object, str]]:
        """As Airflow's own values that are resolved later have it."""
        return iter(())


def check_value(name: str, value: object, read: Callable[[Any], object]) -> None:
    """Find what is wrong with one parameter of an operator, as far as it is known.

    :param read: makes what is stored of a value that is known
    :raises InvalidJob: naming the parameter and what is allowed
    """
    try:
        # Of what is known later too: Airflow goes through it for templates.
        check_size(value)
    except NotJson as error:
        raise InvalidJob(f"{name}: {error}") from None
    if _is_known(value) and (flaw := flaw_in(read(value))) is not None:
        raise InvalidJob(f"{name}: {flaw}")


def _is_known(value: object) -> bool:
    """Whether nothing in a value waits for the task to run: no template, and nothing that Airflow resolves then."""
    if isinstance(value, str):
        return "{{" not in value and "{%" not in value
    if isinstance(value, Mapping):
        return all(map(_is_known, (*value.keys(), *value.values())))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_known, value))
    return not hasattr(value, "iter_references")


def _words(name: str, value: object) -> list[str]:
    """A list of words; numbers are written out."""
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Sequence):
        raise InvalidJob(f"{name}: {value!r} is no list of words.")
    for word in value:
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            raise InvalidJob(f"{name}: {word!r} is neither text nor a number.")
    return [str(word) for word in value]


def _command(value: object) -> str | list[str]:
    return _text("command", value) if isinstance(value, str) else _words("command", value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidJob(f"{name}: {value!r} is no text, or an empty one.")
    return value


def _environment(value: object) -> list[dict[str, Any]]:
    """Items of a step's environment."""
    if not isinstance(value, Mapping):
        raise InvalidJob(f"environment: {value!r} is no mapping of names to values.")
    return list(_items(value))


def _items(environment: Mapping[object, object]) -> Iterator[dict[str, Any]]:
    for name, value in environment.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise InvalidJob(f"environment: {name!r} is no name of a variable.")
        if isinstance(value, Mapping) and set(value) == {"from_secret"} and isinstance(value["from_secret"], str):
            _check_secret(name, value["from_secret"])
            yield {"name": name, "from_secret": {"name": value["from_secret"]}}
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield {"name": name, "value": str(value)}
        else:
            raise InvalidJob(
                f"environment: the value of {name} is {value!r}; it must be text, a number, or "
                '{"from_secret": "<name>"} or {"from_secret": "<workspace>/<name>"}.'
            )


def _check_secret(variable: str, reference: str) -> None:
    # Of which workspace it is does not matter to its form.
    if secret_of(reference, "default") is None:
        raise InvalidJob(
            f"environment: {variable}: {reference!r} cannot be a secret's name. Give '<name>' or '<workspace>/<name>'; "
            "a name has 1 to 63 letters, digits, - and _."
        )


def _config(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidJob(f"config: {value!r} is no mapping with text as keys.")
    try:
        return dict(jsonable(value))
    except NotJson as error:
        raise InvalidJob(f"config: {error}") from None


def _storage(value: object) -> str:
    if not isinstance(value, str) or not PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts:
        raise InvalidJob(
            f"job_storage: {value!r} is no absolute path; it is where a container finds the storage that all steps of "
            f"the run share. A process of the host finds it in ${STORAGE_VARIABLE}, whatever the path."
        )
    return value


def _result(value: object) -> object:
    parts = PurePosixPath(value).parts if isinstance(value, str) else ()
    # No part can be longer anywhere, and each is opened in the one before.
    too_long = len(str(value).encode(errors="surrogatepass")) > _MOST_PATH_BYTES
    if not parts or parts[0] == "/" or ".." in parts or "\0" in str(value) or too_long:
        raise InvalidJob(
            f"result_file: {value!r} is no path of at most {_MOST_PATH_BYTES} bytes below the task's storage "
            "($NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH), such as result.json."
        )
    return value


_READERS: dict[str, Callable[[Any], object]] = {
    "command": _command,
    "entrypoint": lambda value: _words("entrypoint", value),
    "image": lambda value: _text("image", value),
    "environment": lambda value: {item["name"]: item for item in _environment(value)},
    "compute_resources": stored_resources,
    "config": _config,
    "job_storage": _storage,
    "result_file": _result,
}
