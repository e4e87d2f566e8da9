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
        (["hunter22\n"], "hunter22!", "***!"),
        (["  hunter22\t"], "<hunter22>", "<***>"),
        (["abcdef", "defghi"], "xabcdefghix", "x***x"),
        (["defghi", "abcdef", "ghijkl"], "abcdefghijkl", "***"),
        (["abcdef", "defghi"], "abcdef defghi", "*** ***"),
        (["hunter22"], "hunter22hunter22", "***"),
        (["aabaa"], "aabaabaa", "***"),
        (["aaa\u2028bbb\nccccc"], "aaa\u2028bbb", "***"),
        (["five5", "four"], "five5 four", "*** four"),
        (["a.*b.+c"], "a.*b.+c axxbxxc", "*** axxbxxc"),
        (["secret-secret-value"], "secret-secret-va … [cut: 70000 bytes]", "*** … [cut: 70000 bytes]"),
        (["secret-secret-value"], "secret-secret … [cut: 70000 bytes]", "*** … [cut: 70000 bytes]"),
        (["secret-value"], "secr … [cut: 70000 bytes]", "secr … [cut: 70000 bytes]"),
        (["secret-value", "value-more"], "secret-value-m … [cut: 9 bytes]", "*** … [cut: 9 bytes]"),
    ],
)
def test_values_are_hidden(values: list[str], text: str, expected: str) -> None:
    assert Mask(values).text(text) == expected


def test_without_values_lines_are_passed_on_untouched() -> None:
    lines = [(1, "task-a", "stdout", "text")]
    assert Mask(["abc"]).lines(lines) is lines


def test_a_value_that_a_long_line_is_full_of() -> None:
    value = "ab" * 40_000
    text = f"{value[:65_000]} … [cut: 70000 bytes]"
    assert Mask([value]).text(text) == "*** … [cut: 70000 bytes]"
    assert Mask(["aaaaa"]).text("a" * 65_000) == "***"


def test_values_in_details() -> None:
    mask = Mask(["hunter22"])
    given = {"message": "said hunter22", "list": [{"hunter22": 1}, "x"], "none": None, "number": 5}
    assert mask.value(given) == {"message": "said ***", "list": [{"***": 1}, "x"], "none": None, "number": 5}
    assert Mask().value(given) is given


def test_names_of_fields_are_no_secrets() -> None:
    fields = {"message": "message 7", "details": {"message": 1}}
    assert Mask(["message"]).fields(fields) == {"message": "*** 7", "details": {"***": 1}}
