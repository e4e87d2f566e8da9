"""The context file that is shared with the upstream command line: where it is, what it says, how a login changes it.

Read leniently: a key we do not know is not ours, and stays when the file is written.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_airflow_provider.documents import yamltext
from nemo_airflow_provider.documents.inputfile import UnreadableFile, read_text
from nemo_airflow_provider.errors import ConfigError

Record = dict[str, Any]

_MOST_BYTES = 1024 * 1024


class ContextFileError(ConfigError):
    """The file cannot be read, or names a thing that it does not have."""

    exit_code = 1


def path() -> Path:
    """`NHX_CONFIG_FILE`, else `$XDG_CONFIG_HOME/nhx/config.yaml` where that directory exists, else in `~/.config`."""
    if chosen := os.environ.get("NHX_CONFIG_FILE"):
        return Path(chosen).expanduser()
    if xdg := os.environ.get("XDG_CONFIG_HOME"):
        directory = Path(xdg) / "nhx"
        if directory.is_dir():
            return directory / "config.yaml"
    return Path.home() / ".config" / "nhx" / "config.yaml"


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """One context with what it refers to; empty records for references that lead nowhere."""

    name: str
    context: Record = field(default_factory=dict)
    cluster: Record = field(default_factory=dict)
    user: Record = field(default_factory=dict)

    @property
    def preferences(self) -> Record:
        """`preferences` of the context."""
        found = self.context.get("preferences")
        return found if isinstance(found, dict) else {}


def load(file: Path) -> Record:
    """The whole file; empty when there is none.

    :raises ContextFileError: not readable, or not a YAML mapping
    """
    try:
        text = read_text(file, limit_bytes=_MOST_BYTES)
    except FileNotFoundError:
        return {}
    except UnreadableFile as error:
        raise ContextFileError(f"Cannot read the context file {file}: {error}") from error
    try:
        content = yamltext.parse(text, str(file))
    except yamltext.Refused as error:
        raise ContextFileError(f"The context file {file} cannot be used: {error}") from error
    except ValueError as error:
        raise ContextFileError(f"The context file {file} is not YAML: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ContextFileError(f"The context file {file} must hold a mapping with contexts, clusters and users")
    return content


def select(content: Record, name: str | None, file: Path) -> ContextRecord | None:
    """The context `name`, or without one the current context; None when neither is there.

    :raises ContextFileError: `name`, or what the file calls current, does not exist
    """
    wanted = name or content.get("current_context")
    if not wanted:
        return None
    context = find(content, "contexts", wanted)
    if context is None:
        known = ", ".join(str(record["name"]) for record in records(content, "contexts")) or "none"
        raise ContextFileError(f"Context '{wanted}' not found in {file}. Available contexts: {known}")
    return ContextRecord(
        str(wanted),
        context,
        find(content, "clusters", context.get("cluster")) or {},
        find(content, "users", context.get("user")) or {},
    )


def records(content: Record, section: str) -> list[Record]:
    """The named records of a section."""
    found = content.get(section)
    if not isinstance(found, list):
        return []
    return [record for record in found if isinstance(record, dict) and record.get("name")]


def find(content: Record, section: str, name: Any) -> Record | None:
    """The record of that name."""
    return next((record for record in records(content, section) if record["name"] == name), None)


def store_login(content: Record, context_name: str, *, base_url: str, token: str, expires_at: float | None) -> None:
    """Put a token into `content`, under the context's own user, and point its cluster at the server.

    A cluster or user that another context refers to as well is left alone, and a new one made: that context
    must not change its server, or send its requests as somebody else.
    """
    context = find(content, "contexts", context_name)
    if context is None:
        context = {"name": context_name, "workspace": "default"}
        _append(content, "contexts", context)
    cluster = _own(content, "clusters", "cluster", context, keep=_has_url(base_url))
    cluster["base_url"] = base_url
    user = _own(content, "users", "user", context)
    user["type"] = "oauth"
    user["token"] = token
    # A refresh token or broker of an earlier login belongs to another identity provider than this token.
    for stale in ("refresh_token", "token_broker_url", "expires_at"):
        user.pop(stale, None)
    if expires_at is not None:
        user["expires_at"] = expires_at
    if not content.get("current_context"):
        content["current_context"] = context_name


def save(file: Path, content: Record) -> None:
    """Replace the file in one go, readable for its owner only. Through a symbolic link, its target.

    :raises ContextFileError: not writable
    """
    import yaml

    # Escapes for all but ASCII: PyYAML writes U+0085 as it is where it may, and reads it as a blank.
    text = yaml.safe_dump(content, sort_keys=False)
    target = Path(os.path.realpath(file))
    # A device would be replaced as well, for all programs: NHX_CONFIG_FILE=/dev/null.
    if target.exists() and not target.is_file():
        raise ContextFileError(f"Cannot write the context file {file}: it is not a file")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp opens with 0600 from the start: the token is never readable for others.
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise ContextFileError(f"Cannot write the context file {file}: {error}") from error


def _has_url(base_url: str) -> Any:
    return lambda cluster: str(cluster.get("base_url", "")).rstrip("/") == base_url.rstrip("/")


def _own(content: Record, section: str, key: str, context: Record, keep: Any = None) -> Record:
    """The record that `context` names under `key`, if no other context does or `keep` allows it; else a new one."""
    record = find(content, section, context.get(key))
    shared = any(other is not context and other.get(key) == context.get(key) for other in records(content, "contexts"))
    if record is not None and (not shared or (keep is not None and keep(record))):
        return record
    taken = {other["name"] for other in records(content, section)}
    name = context["name"]
    number = 2
    while name in taken:
        name = f"{context['name']}-{number}"
        number += 1
    record = {"name": name}
    _append(content, section, record)
    context[key] = name
    return record


def _append(content: Record, section: str, record: Record) -> None:
    if not isinstance(content.get(section), list):
        content[section] = []
    content[section].append(record)
