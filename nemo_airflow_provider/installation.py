"""Which installation this is: workloads and logs of another one, on the same host or disk, are not ours to touch.

An installation is what shares one `[nemo] storage`: its id is a file there, made by whoever needs it first. Airflow's
database says the same id (`service.sweep`), so that a database put beside somebody else's storage is recognised.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

_FILE = "installation"
_CLAIM = "installation.claimed"
_ID = re.compile(r"[0-9a-f]{16}")


def installation_id(storage: Path) -> str:
    """The id of the installation that keeps its files in `storage`: 16 hex digits.

    :raises OSError: the directory cannot be written
    """
    while (found := _read(storage)) is None:
        storage.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = storage / f"{_FILE}.{secrets.token_hex(8)}"
        new.write_text(secrets.token_hex(8))
        # Linked, so that it is there wholly or not at all, and of two makers one wins.
        with suppress(FileExistsError):
            os.link(new, storage / _FILE)
        new.unlink()
    return found


def claim(storage: Path) -> bool:
    """Take the storage for one database.

    :return: False when one has it already
    """
    try:
        os.close(os.open(storage / _CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def is_claimed(storage: Path) -> bool:
    """Whether a database has taken the storage."""
    return (storage / _CLAIM).exists()


def _read(storage: Path) -> str | None:
    try:
        text = (storage / _FILE).read_text().strip()
    except FileNotFoundError:
        return None
    if _ID.fullmatch(text):
        return text
    raise OSError(f"{storage / _FILE} holds no id of an installation; remove the file, and a new one is made")
