"""How a table is fitted to the width of a terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nemo_airflow_provider.cli.tables import WHOLE, Cells, is_moment

# A table of these alone still says something; of the others, moments are what one misses most.
_ALWAYS_SHOWN = WHOLE | {"status", "profile", "message"}
#: Less of a longer text says nothing.
_LEAST_CHARACTERS = 20
# Of rich's boxes: a line and a blank before each column, a blank behind it, and a line at the end.
_FRAME_OF_COLUMN, _FRAME = 3, 1


@dataclass(frozen=True, slots=True)
class Fit:
    """A table as it fits.

    :param widths: of the columns, in characters of the terminal
    :param left_out: columns for which there was no room
    """

    columns: list[str]
    body: Cells
    widths: list[int]
    left_out: list[str]


def fitted(columns: Sequence[str], bodies: Sequence[Cells], width: int, *, may_leave_out: bool) -> Fit:
    """The most that fits.

    Texts become narrower first, then the next body is tried, and columns go last. Names, ids and moments are never cut:
    what is too wide without any more to leave out is given as wide as it is.

    :param bodies: the same rows, each in fewer characters than the one before
    :param width: of the terminal, in characters
    :param may_leave_out: whether columns may go; nobody has asked for these by name
    """
    choices = list(_choices(columns)) if may_leave_out else [list(columns)]
    for shown in choices:
        left_out = [column for column in columns if column not in shown]
        for body in bodies:
            picked = _picked(columns, body, shown)
            needs = [_needs(column, picked, index) for index, column in enumerate(shown)]
            spare = width - sum(least for least, _ in needs) - _FRAME_OF_COLUMN * len(shown) - _FRAME
            if spare >= 0:
                return Fit(shown, picked, _shared_out(needs, spare), left_out)
    return Fit(shown, picked, [least for least, _ in needs], left_out)


def _choices(columns: Sequence[str]) -> Iterator[list[str]]:
    """All columns, then without one more at a time: texts from the last on, then moments from the last on."""
    shown = list(columns)
    yield list(shown)
    expendable = [column for column in columns if column not in _ALWAYS_SHOWN]
    for column in sorted(reversed(expendable), key=is_moment):
        shown.remove(column)
        if shown:
            yield list(shown)


def _picked(columns: Sequence[str], body: Cells, shown: Sequence[str]) -> Cells:
    indexes = [columns.index(column) for column in shown]
    return [[row[index] for index in indexes] for row in body]


def _needs(column: str, body: Cells, index: int) -> tuple[int, int]:
    """(least, most) characters that a column can use."""
    from rich.cells import cell_len

    head = cell_len(column)
    most = max([head, *(cell_len(row[index]) for row in body)])
    is_rigid = column in WHOLE or is_moment(column)
    return (most if is_rigid else max(head, min(most, _LEAST_CHARACTERS))), most


def _shared_out(needs: Sequence[tuple[int, int]], spare: int) -> list[int]:
    """Widths, the first columns getting what is to spare first."""
    widths = []
    for least, most in needs:
        more = min(spare, most - least)
        widths.append(least + more)
        spare -= more
    return widths
