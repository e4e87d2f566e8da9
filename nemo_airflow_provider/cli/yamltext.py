"""YAML that a person wrote."""

from __future__ import annotations

from typing import Any


def parse(text: str) -> Any:
    """The value of a YAML document; None for an empty one.

    :raises ValueError: it has none; the text is one line. PyYAML lets through whatever making a value raises, such
        as ValueError for the date 2026-02-31, KeyError for `!!bool x` and IndexError for `!!int ''`
    """
    # Here and not at the top: most commands read no YAML.
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"a value in it cannot be read ({type(error).__name__}: {error})") from error
