"""A Docker engine of a test's own, which may be killed and started anew."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from nemo_airflow_provider.backends.docker.access import Access
from tests.busybox import busybox
from tests.waiting import wait_until


class Dockerd:
    """One engine, with a bridge of its own: one without any would remove that of the host's other engine.

    :param options: more words of its command line
    """

    def __init__(self, *options: str) -> None:
        # A socket's path must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="nemo-dk-"))
        self.access = Access(url=f"unix://{self.folder}/sock")
        self._bridge = f"nemo{token_hex(4)}"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        if not Path("/sys/class/net", self._bridge).exists():
            number = zlib.crc32(self._bridge.encode())
            _ip("link", "add", "name", self._bridge, "type", "bridge")
            _ip("address", "add", f"10.218.{number % 256}.1/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
        # Those of an engine that was killed: nobody may have taken note of their processes' ends.
        for place in ("pid", "exec/containerd/containerd.pid"):
            (self.folder / place).unlink(missing_ok=True)
        places = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
        words = [f"--{name}={self.folder}/{place}" for name, place in places.items()]
        name = self._bridge
        words += [f"--containerd-namespace={name}", f"--containerd-plugins-namespace={name}-plugins"]
        words += [
            f"--bridge={self._bridge}",
            "--iptables=false",
            "--ip-forward=false",
            "-H",
            self.access.url,
            *self._options,
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(["dockerd", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers, 120, f"dockerd, see {self.folder}/log", pause_seconds=0.1)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal, and wait for the end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def remove(self) -> None:
        """End it, and whatever of it lives."""
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)
        containers = os.listdir(self.folder / "data" / "containers") if (self.folder / "data").exists() else []
        marks = [f"{self.folder}/".encode(), *(each.encode() for each in containers)]
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                told = (process / "cmdline").read_bytes() + (process / "cgroup").read_bytes()
                if int(process.name) != os.getpid() and any(mark in told for mark in marks):
                    os.kill(int(process.name), signal.SIGKILL)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((each for each in mounts if f"{each}/".startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "-l", place], check=False)
        subprocess.run([str(busybox()), "ip", "link", "delete", self._bridge], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text(errors="replace")[-3000:]
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            try:
                connection.connect(f"{self.folder}/sock")
                connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in connection.recv(64)
            except OSError:
                return False


def _ip(*words: str) -> None:
    subprocess.run([str(busybox()), "ip", *words], check=True)
