"""YAML that a person wrote."""

from __future__ import annotations

from typing import Any


def parse(text: str, source: str) -> Any:
    """The value of a YAML document; None for an empty one.

    :param source: where the text comes from, for people
    :raises ValueError: it has none; the text is one line. PyYAML lets through whatever making a value raises, such
        as ValueError for the date 2026-02-31, KeyError for `!!bool x` and IndexError for `!!int ''`
    """
    # Here and not at the top: most commands read no YAML.
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        # PyYAML's name for a text, and it has no other way to give one.
        told = str(error).replace("<unicode string>", source)
        raise ValueError(" ".join(told.split())) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"a value in it cannot be read ({type(error).__name__}: {error})") from error
