from __future__ import annotations

import pytest

from nemo_airflow_provider.logs.mask import Mask


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        ([], "token=hunter22", "token=hunter22"),
        (["hunter22"], "token=hunter22 hunter22", "token=*** ***"),
        (["1234"], "1234 is too short to hide", "1234 is too short to hide"),
        (["inside", "more inside it"], "more inside it", "***"),
        (["first line\nsecond line\n"], "a second line of it", "a *** of it"),
        (["secret-value"], "xx secret-v … [cut: 70000 bytes]", "xx *** … [cut: 70000 bytes]"),
        (["secret-value"], "xx secret-v", "xx secret-v"),
        ([""], "nothing to hide", "nothing to hide"),
    ],
)
def test_values_are_hidden(values: list[str], text: str, expected: str) -> None:
    assert Mask(values).text(text) == expected


def test_without_values_lines_are_passed_on_untouched() -> None:
    lines = [(1, "task-a", "stdout", "text")]
    assert Mask(["abc"]).lines(lines) is lines
