"""YAML that a person wrote: read only if what it stands for has a bearable size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

#: Values and keys of a document, each alias counted as all that it stands for.
_MOST_VALUES = 100_000
_MOST_CHARACTERS = 8 * 1024 * 1024
_MOST_LEVELS = 100
#: PyYAML takes quadratic time for the digits of `1:1:1:…`.
_MOST_DIGITS = 1000
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_MERGE = "tag:yaml.org,2002:merge"


class Refused(ValueError):
    """YAML, but not to be used: too large, or its reader could only guess what was meant. The text names the line."""


class TooLarge(Refused):
    """What it stands for has more values or characters than are read of YAML."""


def parse(text: str, source: str) -> Any:
    """The value of a YAML document; None for an empty one.

    :param source: where the text comes from, for people
    :raises Refused: see there
    :raises ValueError: it has no value; the text is one line. PyYAML lets through whatever making a value raises,
        such as ValueError for the date 2026-02-31, KeyError for `!!bool x` and IndexError for `!!int ''`
    """
    # Here and not at the top: most commands read no YAML.
    import yaml

    reader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _measure(text, reader)
        loader = reader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            _check_nodes(root)
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except Refused:
        raise
    except yaml.YAMLError as error:
        # PyYAML's name for a text, and it has no other way to give one.
        told = str(error).replace("<unicode string>", source)
        raise ValueError(" ".join(told.split())) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"a value in it cannot be read ({type(error).__name__}: {error})") from error


class _Document:
    """The size of a document so far, while its events pass by; aliases count as what they stand for."""

    def __init__(self) -> None:
        self.values = 0
        self.characters = 0
        # Anchor and size at its beginning, of each list or mapping whose end has not come yet.
        self.around: list[tuple[str | None, int, int]] = []
        self._anchored: dict[str, tuple[int, int]] = {}

    def begin(self, anchor: str | None) -> None:
        self.around.append((anchor, self.values, self.characters))
        self.values += 1

    def end(self) -> None:
        self._remember(*self.around.pop())

    def scalar(self, anchor: str | None, length: int) -> None:
        before = (self.values, self.characters)
        self.values += 1
        self.characters += length
        self._remember(anchor, *before)

    def alias(self, anchor: str) -> None:
        """One that was never given counts nothing here; PyYAML complains of it later."""
        values, characters = self._anchored.get(anchor, (0, 0))
        self.values += values
        self.characters += characters

    def is_inside(self, anchor: str) -> bool:
        return any(outer == anchor for outer, _, _ in self.around)

    def _remember(self, anchor: str | None, values_before: int, characters_before: int) -> None:
        if anchor is not None:
            self._anchored[anchor] = (self.values - values_before, self.characters - characters_before)


def _measure(text: str, reader: type[yaml.SafeLoader]) -> None:
    """Go over the events, before anything is made of them.

    :raises Refused: too many values, characters or levels, or an alias inside what it stands for
    """
    import yaml

    document = _Document()
    for event in yaml.parse(text, Loader=reader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            anchor = str(event.anchor)
            if document.is_inside(anchor):
                raise Refused(f"the alias *{anchor} in line {line} stands inside the value it refers to")
            document.alias(anchor)
        elif isinstance(event, yaml.ScalarEvent):
            document.scalar(event.anchor, len(event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            document.begin(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            document.end()
        _check_size(document, line)


def _check_size(document: _Document, line: int) -> None:
    if len(document.around) > _MOST_LEVELS:
        raise Refused(f"it is nested more than {_MOST_LEVELS} levels deep (line {line})")
    for amount, most, what in (
        (document.values, _MOST_VALUES, "values"),
        (document.characters, _MOST_CHARACTERS, "characters"),
    ):
        if amount > most:
            raise TooLarge(f"it has more than {most:,} {what}, with its aliases written out (line {line})")


def _check_nodes(root: yaml.Node) -> None:
    """Look at each node once, an aliased one too.

    :raises Refused: a key that is given twice, or a number of very many digits
    """
    import yaml

    pending, seen = [root], set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            pending += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif node.tag in _NUMBERS and len(node.value) > _MOST_DIGITS:
            raise Refused(f"the number in line {node.start_mark.line + 1} has more than {_MOST_DIGITS} digits")


def _check_keys(mapping: yaml.MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in mapping.value:
        # Anything but a scalar is no key in JSON, which is said later; `<<` may come more than once.
        if not isinstance(key.value, str) or key.tag == _MERGE:
            continue
        name, line = (key.tag, key.value), key.start_mark.line + 1
        if name in lines:
            raise Refused(f"the key '{key.value}' is given twice, in line {lines[name]} and in line {line}")
        lines[name] = line
