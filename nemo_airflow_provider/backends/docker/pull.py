"""One pull of an image: a thread of its own, its progress told and its failure judged."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.backends.container.connection import hang_up
from nemo_airflow_provider.backends.docker.access import Access, Login
from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from docker import APIClient

#: What no further try mends (distribution specification, "Error codes", and the engine's own words for them).
_PERMANENT = re.compile(
    r"manifest unknown|manifest for .* not found|not found: manifest|repository does not exist|no matching manifest"
    r"|unauthorized|authentication required|access denied|denied:|no basic auth credentials|forbidden"
    r"|invalid reference format|name invalid|name unknown|unsupported media type"
    r"|(repository|artifact) .* not found|: not found$",
    re.IGNORECASE,
)

_TOO_MANY = re.compile(r"too ?many ?requests", re.IGNORECASE)


def is_permanent(status: int | None, text: str) -> bool:
    """Whether a pull that failed so fails at every try.

    :param status: of the engine's HTTP answer; None: the pull had begun
    :param text: the engine's words
    """
    if _TOO_MANY.search(text):
        return False
    return status in (400, 403, 404) or _PERMANENT.search(text) is not None


class Pull:
    """One pull; the engine gives it up when the thread's connection is closed."""

    def __init__(self, access: Access, image: str, clock: Callable[[], float]) -> None:
        self._access = access
        self.image = image
        self.progress = Progress(clock)
        self.failure: str | None = None
        self.is_permanent = False
        self._given_up = threading.Event()
        self._answer: Any = None
        self._thread = threading.Thread(target=self._run, name="nemo-image-pull", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return not self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait for its end, but no longer than that."""
        self._thread.join(seconds)

    def give_up(self) -> None:
        """End it, though the engine may have nothing to report; it keeps the layers that are complete.

        Over SSH it ends with the next report, and before the engine's first answer with that.
        """
        self._given_up.set()
        if self._answer is not None:
            hang_up(self._answer.raw)

    def _run(self) -> None:
        from docker.errors import APIError

        try:
            with self._access.told(), closing(self._access.client()) as client:
                self._pull(client)
        except APIError as error:
            self._fail(error.status_code, error.explanation or str(error))
        except BackendError as error:
            self._fail(None, str(error))
        except Exception as error:  # such as half a report: a thread that just ended would pass for one that did well
            words = str(error.args[0]) if error.args else type(error).__name__
            self._fail(None, f"The engine's report of the pull broke off: {words}")

    def _pull(self, client: APIClient) -> None:
        from docker.errors import InvalidRepository, NotFound

        login = login_for(self.image, self._access.logins)
        auth = None if login is None else {"username": login.username, "password": login.password}
        answers: list[Any] = []
        client.hooks["response"].append(lambda answer, **_: answers.append(answer))
        try:
            reports = client.pull(self.image, stream=True, decode=True, auth_config=auth)
        except InvalidRepository as error:  # of the client itself
            self._fail(400, str(error))
            return
        with closing(answers[-1]) as self._answer:
            if self._given_up.is_set() or not self._take(reports):
                return
        try:
            client.inspect_image(self.image)
        except NotFound:
            self._fail(None, "The engine ended the pull, but does not have the image.")

    def _take(self, reports: Iterator[Mapping[str, Any]]) -> bool:
        """Take in all reports; whether the last was that all went well."""
        for report in reports:
            if self._given_up.is_set():
                return False
            if "error" in report:
                self._fail(None, str(report["error"]))
                return False
            self.progress.take(report)
        return True

    def _fail(self, status: int | None, text: str) -> None:
        self.is_permanent = is_permanent(status, text)
        self.failure = " ".join(text.split())


def fetch(access: Access, image: str, seconds: float) -> None:
    """Pull an image, and wait for it.

    :raises BackendError: it cannot be had, or not within so many seconds
    """
    pull = Pull(access, image, time.monotonic)
    pull.join(seconds)
    if not pull.is_over:
        pull.give_up()
        raise BackendError(f"Image {image} was not pulled within {seconds:.0f} s.")
    if pull.failure is not None:
        raise BackendError(f"Failed to pull image {image}: {pull.failure}")


def login_for(image: str, logins: Mapping[str, Login]) -> Login | None:
    """The credentials for an image's registry; None: what the worker's own Docker configuration has."""
    from docker.auth import resolve_index_name, resolve_repository_name
    from docker.errors import DockerException

    try:
        registry, _ = resolve_repository_name(image.rpartition("@")[0] or image)
    except DockerException:
        return None  # the engine says what is wrong with the name
    return next((login for name, login in logins.items() if resolve_index_name(name) == registry), None)


class Progress:
    """How far a pull has come, out of what the engine reports layer by layer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._layers: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()
        self.moved_at = self._clock()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one report."""
        layer, status = str(event.get("id", "")), str(event.get("status", ""))
        before = (self._layers.get(layer), len(self._done))
        if status in ("Pull complete", "Already exists"):
            self._done.add(layer)
        detail = event.get("progressDetail") or {}
        if status == "Downloading" and detail.get("total"):
            self._layers[layer] = (int(detail.get("current", 0)), int(detail["total"]))
        elif status == "Download complete" and layer in self._layers:
            self._layers[layer] = (self._layers[layer][1], self._layers[layer][1])
        elif status == "Pulling fs layer":
            self._layers.setdefault(layer, (0, 0))
        if (self._layers.get(layer), len(self._done)) != before or status in ("Extracting", "Verifying Checksum"):
            self.moved_at = self._clock()

    def __str__(self) -> str:
        layers = self._layers.keys() | self._done
        if not layers:
            return ""
        # The engine goes through its reports while they are read.
        pairs = list(self._layers.values())
        current, total = sum(pair[0] for pair in pairs) / 1e6, sum(pair[1] for pair in pairs) / 1e6
        size = f", {current:.0f} of {total:.0f} MB" if total else ""
        return f"{len(self._done)} of {len(layers)} layers{size}"
