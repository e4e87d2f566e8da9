"""The directory of one workload, open: what its files say, and how its supervisor is spoken to."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass

from nemo_airflow_provider import processes
from nemo_airflow_provider.backends.subprocess import environment
from nemo_airflow_provider.backends.subprocess.control import (
    CONTROL,
    FREEZE_FILE,
    FROZEN_FILE,
    STOPS_FILE,
    WORKLOAD_FILE,
)
from nemo_airflow_provider.backends.subprocess.layout import Place, claim_lock, is_locked, read_record
from nemo_airflow_provider.backends.subprocess.leftovers import Traces, leftovers
from nemo_airflow_provider.backends.subprocess.reach import (
    below,
    is_absent,
    open_fifo,
    open_file,
    open_regular,
    opened,
    write_file,
)
from nemo_airflow_provider.backends.subprocess.records import Ended, Started, ended_of, key_of, started_of
from nemo_airflow_provider.model.names import WorkloadKey

_LEFTOVER_PASSES = 50
_LEFTOVER_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class WorkDirectory:
    """An open work directory; everything goes through the descriptor, so renaming its parents changes nothing.

    The lock on it guards starts and removals. Our files are in its control directory; one that the workload has
    removed or replaced reads as one without files.

    :param descriptor: the open directory, where the command starts
    :param place: the paths it was opened under
    """

    descriptor: int
    place: Place

    def key(self) -> WorkloadKey | None:
        """Whose directory this is; None when it was never filled."""
        return key_of(read_record(self.descriptor, CONTROL, WORKLOAD_FILE))

    def write_key(self, key: WorkloadKey) -> None:
        """Note whose directory this is, first of all our files."""
        with below(self.descriptor, CONTROL, create=True) as control:
            write_file(control, WORKLOAD_FILE, json.dumps(asdict(key)).encode())

    def started(self) -> Started | None:
        """What the supervisor noted before it let the command go; None while it has not."""
        return started_of(read_record(self.descriptor, CONTROL, "started"))

    def ended(self) -> Ended | None:
        """What the supervisor noted at the end; None before. Not to be believed while it lives: it notes the end and
        goes within microseconds, and a workload can write too."""
        return ended_of(read_record(self.descriptor, CONTROL, "exit.json"))

    def open_output(self) -> int | None:
        """What the supervisor copied from the command's pipes; None when there is no such file."""
        return open_file(self.descriptor, CONTROL, "output")

    def supervised(self) -> bool:
        """Whether a supervisor lives."""
        file = open_file(self.descriptor, CONTROL, "alive")
        if file is None:
            return False
        try:
            return is_locked(file)
        finally:
            os.close(file)

    def replaced(self, started: Started) -> bool:
        """Whether something else is in the place of the file that the supervisor of this start has locked."""
        if started.alive is None or started.boot != processes.boot_id():  # some file systems number anew when mounted
            return False
        try:
            with below(self.descriptor, CONTROL) as control:
                return os.stat("alive", dir_fd=control, follow_symlinks=False).st_ino != started.alive
        except FileNotFoundError:
            return False

    def being_started(self) -> bool:
        """Whether some process is in the midst of a start, or of a removal. A lock on a workload that has started is
        its own: it may do with its directory what it likes."""
        return is_locked(self.descriptor) and self.started() is None

    def lock(self, seconds: float) -> bool:
        """Hold the directory against starts and removals by others, until the descriptor is closed.

        :return: False when somebody else held it for so long, or has removed it meanwhile
        """
        return claim_lock(self.descriptor, seconds) and self._linked()

    def settle(self) -> bool:
        """Lock the directory for a removal and kill what is left of its workload; False while one runs or is being
        started."""
        # The first look keeps the lock, which others read as "being started", off a running workload.
        if self.supervised() or not self.lock(0) or self.supervised():
            return False
        self.kill_leftovers()  # also behind a noted end: the workload may have written it and killed its supervisor
        return True

    def _linked(self) -> bool:
        try:
            with open_work(self.place) as again:
                return os.path.samestat(os.fstat(again.descriptor), os.fstat(self.descriptor))
        except OSError:
            return False

    def frozen(self) -> bool:
        """Whether its supervisor says that all of it stands still."""
        try:
            with below(self.descriptor, CONTROL) as control:
                os.stat(FROZEN_FILE, dir_fd=control, follow_symlinks=False)
        except OSError as error:
            if is_absent(error):
                return False
            raise
        return True

    def wish_frozen(self, frozen: bool) -> None:
        """Tell the supervisor whether all of it is to stand still; without one nothing happens.

        :raises OSError: a full disk
        """
        with suppress(FileNotFoundError), below(self.descriptor, CONTROL) as control:
            if frozen:
                os.close(open_regular(control, FREEZE_FILE, os.O_WRONLY | os.O_CREAT))
            else:
                with suppress(FileNotFoundError):
                    os.unlink(FREEZE_FILE, dir_fd=control)
        self._tell(b"look\n")

    def ask_to_stop(self, grace_seconds: float) -> bool:
        """Tell the supervisor; False when none listens."""
        request = f"{grace_seconds}\n".encode()
        # A full disk, or something in its place: the FIFO usually does.
        with suppress(OSError), below(self.descriptor, CONTROL) as control:
            stops = open_regular(control, STOPS_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(stops, request)
            finally:
                os.close(stops)
        return self._tell(request)

    def _tell(self, request: bytes) -> bool:
        """Write to the supervisor's FIFO; False when none listens."""
        with ExitStack() as held:
            try:
                fifo = open_fifo(held.enter_context(below(self.descriptor, CONTROL)), "stop")
            except OSError as error:
                if is_absent(error):
                    return False
                raise
            held.callback(os.close, fifo)
            try:
                os.write(fifo, request)
            except BlockingIOError:
                pass  # thousands of requests wait there already
            except BrokenPipeError:  # it has just gone
                return False
        return True

    def kill_leftovers(self) -> None:
        """Kill what outlived its supervisor; see `leftovers`."""
        started = self.started()
        if started is not None and started.boot != processes.boot_id():
            return  # numbers of processes mean nothing after the next start of the host, and all have ended
        mark = os.fsencode(f"{environment.SCRATCH}={self.place.scratch}")
        traces = Traces(mark, os.path.realpath(f"/proc/self/fd/{self.descriptor}"), started)
        for _ in range(_LEFTOVER_PASSES):
            found = leftovers(traces)
            if not found:
                return
            for pid in found:
                processes.send(pid, signal.SIGKILL)
            time.sleep(_LEFTOVER_PAUSE_SECONDS)


@contextmanager
def open_work(place: Place, create: bool = False) -> Iterator[WorkDirectory]:
    """Open the work directory of a place.

    :raises FileNotFoundError: it is not there, or something else is in its place; see `opened`
    """
    parts = (place.workspace, place.run, place.step, place.task)
    with opened(place.root, *parts, create=create) as descriptor:
        yield WorkDirectory(descriptor, place)


@contextmanager
def present(place: Place) -> Iterator[WorkDirectory | None]:
    """The work directory of a place, or None when there is none."""
    with ExitStack() as stack:
        try:
            work: WorkDirectory | None = stack.enter_context(open_work(place))
        except FileNotFoundError:
            work = None
        yield work
