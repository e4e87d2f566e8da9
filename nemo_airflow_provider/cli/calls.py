"""A call of the SDK as a value: it can be made, or shown as the Python that makes it (`-f code`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nemo_airflow_provider.cli.session import Session


@dataclass(frozen=True, slots=True)
class Call:
    """A method of `JobsClient` with its arguments; keywords that are None are left out."""

    method: str
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)

    def make(self, session: Session) -> Any:
        """Do it, with a client of its own."""
        with session.client() as client:
            return getattr(client, self.method)(*self.arguments, **self._given())

    def with_keywords(self, **keywords: Any) -> Call:
        """The same call with other keywords as well."""
        return Call(self.method, self.arguments, self.keywords | keywords)

    def snippet(self, session: Session) -> str:
        """Python that does the same; a token is named by its variable, never shown."""
        spoken = [repr(argument) for argument in self.arguments]
        spoken += [f"{key}={value!r}" for key, value in self._given().items()]
        imports, token = ([], "")
        if session.token_source:
            imports, token = (["import os", ""], 'token=os.environ["NHX_ACCESS_TOKEN"], ')
        names = "JobsClient, LogFilter" if "which" in self._given() else "JobsClient"
        return "\n".join(
            [
                *imports,
                f"from nemo_airflow_provider.client import {names}",
                "",
                f"with JobsClient({session.display_url!r}, {token}workspace={session.workspace!r}) as jobs:",
                f"    print(jobs.{self.method}({', '.join(spoken)}))",
            ]
        )

    def _given(self) -> dict[str, Any]:
        return {key: value for key, value in self.keywords.items() if value is not None}
