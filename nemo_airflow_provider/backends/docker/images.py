"""The images of an engine: pulled when absent, again where that failed, and no longer than allowed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.pull import Pull
from nemo_airflow_provider.errors import CapacityError, StartError

if TYPE_CHECKING:
    from docker import APIClient

_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 60.0


class Images:
    """The images of one engine, as one process sees to them.

    :param ttl_seconds: how long a pull may keep failing, or stand still; 0: for ever
    """

    def __init__(self, access: Access, ttl_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._clock = clock
        self._ttl_seconds = ttl_seconds
        self._pull: Pull | None = None
        self._failing_since: float | None = None
        self._failure = ""
        self._pause = _FIRST_PAUSE_SECONDS
        self._again_at = 0.0

    def require(self, client: APIClient, image: str) -> None:
        """Return when the engine has the image; begin to pull it where it has not.

        :raises CapacityError: it is being pulled, or will be tried again; the text says how far it is
        :raises StartError: it cannot be had
        """
        from docker.errors import APIError, NotFound

        try:
            client.inspect_image(image)
        except NotFound:  # also of a name that leads past the engine's images; it is judged when it is pulled
            self._see_to(image)
        except APIError as error:
            if error.status_code != 400:
                raise
            words = " ".join(str(error.explanation).split())
            raise StartError(f"Failed to pull image {image}: {words}", detail=words) from error
        else:
            self.give_up()

    def give_up(self) -> None:
        """No image is needed any more."""
        if self._pull is not None:
            self._pull.give_up()
        self._pull, self._failing_since = None, None

    def _see_to(self, image: str) -> None:
        pull = self._pull
        if pull is None or pull.image != image:
            self.give_up()
            self._begin(image)
        elif pull.is_over and pull.failure is not None:
            self._judge(pull)
        elif pull.is_over:
            self._begin(image)  # it was removed again meanwhile
        elif self._ttl_seconds and self._clock() - pull.progress.moved_at > self._ttl_seconds:
            raise self._timed_out(image, "nothing moves")
        raise CapacityError(self._told(image))

    def _told(self, image: str) -> str:
        """How far it is."""
        progress = str(self._pull.progress) if self._pull else ""
        text = f"Pulling image {image} from registry" + (f": {progress}" if progress else "")
        return text if self._failing_since is None else f"{text}. It is tried again, since it failed: {self._failure}"

    def _begin(self, image: str) -> None:
        self._pull = Pull(self._access, image, self._clock)

    def _judge(self, pull: Pull) -> None:
        """A pull has failed: what now.

        :raises StartError: no further try is made
        """
        assert pull.failure is not None
        moment = self._clock()
        if pull.is_permanent:
            self._pull = None
            raise StartError(f"Failed to pull image {pull.image}: {pull.failure}", detail=pull.failure)
        if self._failing_since is None:
            self._failing_since, self._pause = moment, _FIRST_PAUSE_SECONDS
            self._again_at = moment + self._pause
        self._failure = pull.failure
        if self._ttl_seconds and moment - self._failing_since > self._ttl_seconds:
            raise self._timed_out(pull.image, pull.failure)
        if moment >= self._again_at:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
            self._again_at = moment + self._pause
            self._begin(pull.image)

    def _timed_out(self, image: str, reason: str) -> StartError:
        self.give_up()
        return StartError(
            f"Failed to pull image {image}: image pull did not succeed within {self._ttl_seconds:.0f}s: {reason}",
            detail=reason,
        )
