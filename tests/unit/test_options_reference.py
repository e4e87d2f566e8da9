"""Options of `[nemo]`: what is declared to Airflow, what the code falls back on, and the reference page are one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from nemo_airflow_provider import settings
from nemo_airflow_provider.provider_info import get_provider_info

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "airflow-options.md"
DECLARED = get_provider_info()["config"][settings.SECTION]["options"]
KINDS = {"get": "string", "getint": "integer", "getfloat": "float"}


def rows(heading: str) -> list[list[str]]:
    """The cells of the page's table whose first line is this, without that line and the one of dashes."""
    lines = PAGE.read_text().splitlines()
    first = lines.index(heading) + 2
    table = lines[first : lines.index("", first)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def read_by_code() -> dict[str, tuple[str, object]]:
    """Type and fallback of the options that `settings` reads."""
    found = {}
    for call in ast.walk(ast.parse(Path(settings.__file__).read_text())):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name("conf"), attr=getter),
                args=[ast.Name("SECTION"), ast.Constant(str(name))],
                keywords=[ast.keyword("fallback", ast.Constant() | ast.Name() as fallback)],
            ):
                # Some have a name, since others read them too.
                value = getattr(settings, fallback.id) if isinstance(fallback, ast.Name) else fallback.value
                found[name] = KINDS[getter], value
    return found


def test_the_code_falls_back_on_what_is_declared() -> None:
    """Where Airflow has not loaded what providers declare, an option that nobody set reads the same."""
    as_declared = {"string": str, "integer": int, "float": float}
    assert read_by_code() == {
        name: (option["type"], as_declared[option["type"]](option["default"])) for name, option in DECLARED.items()
    }


def test_the_page_tells_every_option_as_it_is_declared() -> None:
    table = rows("| option | type | unit | default | read by | meaning |")
    assert [(name, kind, default) for name, kind, _, default, _, _ in table] == [
        (f"`{name}`", option["type"], f"`{option['default']}`" if option["default"] else "")
        for name, option in DECLARED.items()
    ]
    for name, _, unit, _, readers, meaning in table:
        assert unit, name
        assert set(readers.split(", ")) <= {"API server", "dag-processor", "workers"}, name
        assert meaning, name


def test_the_page_says_of_every_option_when_a_change_counts() -> None:
    told = [name for names, _ in rows("| option | a new value counts for |") for name in re.findall(r"`(\w+)`", names)]
    assert sorted(told) == sorted(DECLARED)
