"""Who waits for GPUs of a host, in the order they came: files that say so as long as their process lives.

Every Airflow process of the host shares one directory per engine. A file called `lock` is held while GPUs are given
out; each waiter holds a lock on a file of its own, which falls with its process, and is then no ticket any more.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from nemo_airflow_provider.errors import BackendError, CapacityError

#: What services with a private /tmp still share goes first.
_PLACES = ("/run/lock", "/var/lock", "/tmp")
#: Where every user may make files. Who asks makes no difference, or root would be at another place than the rest.
_OPEN_TO_ALL = stat.S_IWOTH | stat.S_ISVTX
_LOCK = "lock"
#: Mostly long enough to make a container; a step that waited here any longer would hear of no cancel meanwhile.
_LOCK_TRIES = 20
_LOCK_SECONDS = 0.05
_CANNOT = "The GPUs of this host cannot be given out:"
_REMEDY = "Every user that runs workers must be able to write there."


@dataclass(frozen=True, slots=True)
class Waiter:
    """A step that waits.

    :param since: seconds since 1970 UTC
    :param installation: whose it is
    """

    workspace: str
    job: str
    step: str
    task: str
    gpus: int
    since: float
    installation: str = ""


@dataclass(slots=True)
class Ticket:
    """A place in the line, as long as it is held."""

    path: Path
    file: int

    def drop(self) -> None:
        """Leave the line. Twice is harmless."""
        if self.file >= 0:
            with suppress(OSError):
                self.path.unlink()
            os.close(self.file)
            self.file = -1


class Line:
    """The line of one engine.

    :param engine: its identity
    :param place: directory to use instead of the host's
    """

    def __init__(self, engine: str, place: Path | None = None) -> None:
        self._name = f"nemo-airflow-provider-gpus.{hashlib.sha256(engine.encode()).hexdigest()[:12]}"
        self._given = place

    @cached_property
    def directory(self) -> Path:
        """Where the line is; looked for when it is needed, since most steps want no GPU.

        :raises BackendError: this host has no place for it
        """
        return (self._given or _place()) / self._name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else gives GPUs out meanwhile.

        :raises BackendError: the directory cannot be used
        :raises CapacityError: somebody else is still at it
        """
        with self._told():
            file = self._open_lock()
        try:
            _take(file)
            yield
        finally:
            os.close(file)

    def join(self, waiter: Waiter) -> Ticket:
        """A place at the end; only with the lock.

        :raises BackendError: the directory cannot be used
        """
        with self._told():
            number = max((_number(path) for path in self._files()), default=0) + 1
            path = self.directory / f"{number:012d}.{secrets.token_hex(4)}"
            ticket = Ticket(path, os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
            try:
                # Whatever the umask: workers of other users must see who is before them.
                os.fchmod(ticket.file, 0o644)
                fcntl.flock(ticket.file, fcntl.LOCK_EX)
                os.write(ticket.file, json.dumps(asdict(waiter)).encode())
            except OSError:
                ticket.drop()
                raise
        return ticket

    def before(self, ticket: Ticket | None) -> int:
        """How many wait before a ticket; None: all. Only with the lock.

        :raises BackendError: the directory cannot be used
        """
        own = None if ticket is None else ticket.path.name
        with self._told():
            # With the lock nobody is just making a file, so what nobody holds has no owner any more.
            held = [path.name for path in self._files() if _content(path, discard=True) is not None]
        return sum(own is None or name < own for name in held if name != own)

    def waiters(self) -> list[Waiter]:
        """Everybody who waits, first come first; without the lock, so nothing is removed.

        :raises BackendError: the directory cannot be read
        """
        try:
            contents = [_content(path, discard=False) for path in self._files()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BackendError(
                f"Who waits for the GPUs of this host cannot be read: {self.directory}: {error.strerror}"
            ) from error
        return [waiter for each in contents if each is not None and (waiter := _waiter(each)) is not None]

    def _files(self) -> list[Path]:
        return sorted(path for path in self.directory.iterdir() if path.name[:1].isdigit())

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BackendError(f"{_CANNOT} {self.directory}: {error.strerror}. {_REMEDY}") from error

    def _open_lock(self) -> int:
        with suppress(FileExistsError):
            self.directory.mkdir()
            self.directory.chmod(0o1777)
        if not stat.S_ISDIR(os.lstat(self.directory).st_mode):
            raise NotADirectoryError(20, "it is no directory", str(self.directory))
        path = self.directory / _LOCK
        try:
            # Without O_CREAT, which the kernel refuses for another user's file in such a directory.
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            os.fchmod(file, 0o666)
            return file


def _take(file: int) -> None:
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_SECONDS)
        else:
            return
    raise CapacityError("Another worker of this host is giving out GPUs; asking again.")


def _place() -> Path:
    for place in _PLACES:
        with suppress(OSError):
            mode = os.stat(place).st_mode
            if stat.S_ISDIR(mode) and mode & _OPEN_TO_ALL == _OPEN_TO_ALL:
                return Path(place)
    raise BackendError(
        f"{_CANNOT} none of {', '.join(_PLACES)} is a directory where every user may make files (mode 1777). {_REMEDY}"
    )


def _number(path: Path) -> int:
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def _content(path: Path, *, discard: bool) -> bytes | None:
    """What a ticket says; None where nobody holds it.

    :param discard: whether a file that nobody holds is removed, where that is allowed
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(file, 1 << 16, 0)
    else:
        if discard:
            with suppress(OSError):
                path.unlink()
        return None
    finally:
        os.close(file)


def _waiter(content: bytes) -> Waiter | None:
    """Who holds a ticket; None where it does not say: it is being written, or of another version."""
    try:
        value: Any = json.loads(content)
        return Waiter(**{each.name: value[each.name] for each in fields(Waiter) if each.name in value})
    except (ValueError, TypeError):
        return None
