"""What a request body says beside the job: a name it did not give, and keys that nobody knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any


def generated_name(source: str, suffix: str) -> str:
    """A job name from the body's `source` (contract §1.1).

    :param suffix: 8 lower-case letters or digits that make it unique
    """
    readable = re.sub(r"[^a-z0-9@.+_]+", "-", source.lower())
    readable = re.sub(r"^[^a-z]+", "", readable)[:20].rstrip("-")
    return f"{readable or 'job'}-{suffix}"


#: Free-form parts of a body: their keys are the author's own.
_FREE = {"spec", "ownership", "custom_fields", "config"}


def unknown_keys(given: Any, known: Any, path: str = "") -> Iterator[str]:
    """Paths of keys that were given and that the validated model does not know.

    :param given: the body as it came
    :param known: the validated model, dumped
    """
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            here = f"{path}.{key}" if path else str(key)
            if key not in known:
                yield here
            elif key not in _FREE:
                yield from unknown_keys(value, known[key], here)
    elif isinstance(given, list) and isinstance(known, list):
        for index, (value, counterpart) in enumerate(zip(given, known, strict=False)):
            yield from unknown_keys(value, counterpart, f"{path}.{index}")
