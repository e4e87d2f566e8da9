from __future__ import annotations

import pytest

from nemo_airflow_provider.logs.cursor import Cursor, CursorMismatch, Direction, InvalidCursor

CURSOR = Cursor(Direction.TAIL, (3, 1, 2), 123_456_789_012)


def test_a_cursor_comes_back_and_fits_into_an_url() -> None:
    text = CURSOR.encode("job train")
    assert Cursor.decode(text, "job train") == CURSOR
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_another_scope_is_refused_in_the_contracts_words() -> None:
    with pytest.raises(CursorMismatch) as refused:
        Cursor.decode(CURSOR.encode("job train"), "job other")
    assert str(refused.value) == "page_cursor does not match the current log filters."
    assert refused.value.http_status == 422


@pytest.mark.parametrize(
    "text",
    ["", "x", "é", "!!!", "2", "3jBv", "a" * 51, CURSOR.encode("s")[:-1], CURSOR.encode("s") + "AAAA", "AAAA" * 10],
)
def test_anything_else_is_invalid_in_the_contracts_words(text: str) -> None:
    with pytest.raises(InvalidCursor) as refused:
        Cursor.decode(text, "s")
    assert str(refused.value) == "Invalid page cursor"
    assert refused.value.http_status == 422


def test_every_changed_character_is_noticed() -> None:
    text = CURSOR.encode("s")
    for place, character in enumerate(text[:-1]):
        changed = text[:place] + ("A" if character != "A" else "B") + text[place + 1 :]
        with pytest.raises(InvalidCursor):
            Cursor.decode(changed, "s")
