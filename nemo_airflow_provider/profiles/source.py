"""The text of the configuration file: finding its sections, and knowing the line of every value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from reprlib import repr as shortened
from typing import Any

import yaml

from nemo_airflow_provider.errors import ConfigError

KeyPath = tuple[str | int, ...]

#: Values of a section, each alias counted as all that it stands for.
_MOST_VALUES = 100_000
#: PyYAML takes quadratic time for the digits of `1:1:1:…`.
_MOST_DIGITS = 1000

#: Attribute of a node with what `_by_key` has found.
_INDEX = "nemo_by_key"
_PARSE_ERROR = "Error parsing NeMo Helix configuration file as YAML:"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands; its text form begins every complaint about the value.

    :param source: path of the file, or name of an environment variable
    :param root: the file's top node; None for a variable, which has no lines
    :param path: keys and list positions from the top
    """

    source: str
    root: yaml.Node | None = None
    path: KeyPath = ()

    def child(self, *keys: str | int) -> Place:
        """The place of a value inside this one."""
        return replace(self, path=(*self.path, *keys))

    @property
    def line(self) -> int | None:
        """Line of the value's key, or of the nearest thing around it that the file holds."""
        if self.root is None:
            return None
        node, mark = self.root, self.root.start_mark
        for key in self.path:
            found = _inside(node, key)
            if found is None:
                break
            node, mark = found
        return int(mark.line) + 1

    @property
    def key(self) -> str:
        """The key path, as in `jobs.executors[1].config`."""
        text = ""
        for key in self.path:
            if isinstance(key, int):
                text += f"[{key}]"
            else:
                # A fault is one line, whatever somebody calls a key.
                shown = key if key.isprintable() else json.dumps(key)
                text += f".{shown}" if text else shown
        return text

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{where}: {self.key}" if self.path else where


def _inside(node: yaml.Node, key: str | int) -> tuple[yaml.Node, yaml.Mark] | None:
    if isinstance(node, yaml.MappingNode):
        return _by_key(node).get(str(key))
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key], node.value[key].start_mark
    return None


def _by_key(node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Mark]]:
    """Value and place of each key. Remembered in the node: a mapping of very many keys may have as many faults."""
    pairs, found = vars(node).get(_INDEX, (None, {}))
    # Making values of a mapping with a merge key (`<<`) gives it another list: what that brings comes first, and the
    # mapping's own keys win.
    if pairs is not node.value:
        named = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        found = {key.value: (value, key.start_mark) for key, value in named}
        vars(node)[_INDEX] = node.value, found
    known: dict[str, tuple[yaml.Node, yaml.Mark]] = found
    return known


@dataclass(frozen=True, slots=True)
class Section:
    """One top-level mapping, and where it stands."""

    place: Place
    data: dict[str, Any]


def read_sections(source: str, text: str, names: tuple[str, ...], problems: list[str]) -> dict[str, Section]:
    """The sections of `names` that the text has; the others are neither read nor checked.

    :param source: path of the file
    :param problems: gets one line for each duplicate key and each section that is no mapping
    :raises ConfigError: the text is no YAML, or its top is no mapping
    """
    try:
        return _sections(source, _root(text), names, problems)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{_PARSE_ERROR} {source}:{line}: character #x{int(error.character):04x} is not allowed"
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{_PARSE_ERROR} {where}: {reason}") from error
    except (ArithmeticError, ValueError, RecursionError) as error:
        # Python's own complaint about an escape like "\UFFFFFFFF".
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"{_PARSE_ERROR} {source}: {reason}") from error


def _root(text: str) -> yaml.Node | None:
    """The document, without values yet; None for an empty one.

    libyaml takes a tenth of the time, and PyYAML's own parser says better what is wrong: which character it found, and
    what it expected. So that one reads what the other refuses.
    """
    if yaml.__with_libyaml__:
        try:
            return _composed(yaml.CSafeLoader, text)
        except (yaml.YAMLError, ValueError):
            pass  # told by the other one
    return _composed(yaml.SafeLoader, text)


def _composed(reader: type[yaml.SafeLoader | yaml.CSafeLoader], text: str) -> yaml.Node | None:
    loader = reader(text)
    try:
        root: yaml.Node | None = loader.get_single_node()
        return root
    finally:
        loader.dispose()


_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})


class _Values(yaml.constructor.SafeConstructor):
    """Makes values of nodes, and has a line for every fault: PyYAML lets Python's own complaints through, for a date
    like 2026-02-31."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            if node.tag in _NUMBERS and len(node.value) > _MOST_DIGITS:
                raise ValueError
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            value = shortened(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            problem = f"{value} is no {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def _sections(source: str, root: yaml.Node | None, names: tuple[str, ...], problems: list[str]) -> dict[str, Section]:
    if root is None or (isinstance(root, yaml.MappingNode) and not root.value):
        raise ConfigError(
            f"NeMo Helix configuration file is empty: '{source}'. Write a 'jobs:' section, or remove the "
            "setting that names the file."
        )
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"NeMo Helix configuration file '{source}' does not contain a top-level dictionary.")
    problems.extend(_repeated_keys(root, Place(source, root)))
    sections = {}
    for name in names:
        found = _inside(root, name)
        if found is None:
            continue
        place = Place(source, root, (name,))
        node = found[0]
        if not isinstance(node, yaml.MappingNode):
            problems.append(f"Settings for service '{name}' must be a mapping. ({place})")
            continue
        before = len(problems)
        problems.extend(_faults(node, place, (), set()))
        if len(problems) == before and _size(node, {}) > _MOST_VALUES:
            problems.append(f"{place}: more than {_MOST_VALUES:,} values, with its aliases written out")
        if len(problems) > before:
            continue
        data = _Values().construct_document(node)
        if isinstance(data, dict):
            sections[name] = Section(place, data)
        else:  # `!!set`
            problems.append(f"Settings for service '{name}' must be a mapping. ({place})")
    return sections


def _repeated_keys(node: yaml.MappingNode, place: Place) -> Iterator[str]:
    first: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line = int(key.start_mark.line) + 1
        name = (key.tag, key.value)
        if name in first:
            path = place.child(key.value).key
            yield f"{place.source}:{line}: {path}: key is given twice, first in line {first[name]}"
        first.setdefault(name, line)


def _faults(node: yaml.Node, place: Place, around: tuple[yaml.Node, ...], done: set[int]) -> Iterator[str]:
    """What YAML allows and the file must not have: repeated keys, and an alias inside what it stands for.

    :param around: nodes that hold this one
    :param done: identities of nodes that were looked at; an alias brings the same node again
    """
    if any(node is outer for outer in around):
        yield f"{place}: an alias (`*name`) stands inside the value it refers to"
        return
    if id(node) in done:
        return
    done.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield from _repeated_keys(node, place)
        for key, value in node.value:
            yield from _faults(value, place.child(str(key.value)), (*around, node), done)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _faults(value, place.child(index), (*around, node), done)


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Values below a node without an alias inside itself; merge keys (`<<`) count like aliases, which they hold.

    :param known: sizes of nodes that were measured
    """
    if id(node) not in known:
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 if isinstance(parts, str) else 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]
