from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_airflow_provider.model.quantities import nano_cpus, number_of, whole_bytes


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        ("2.5", "2.5"),
        ("2.", "2"),
        (".5", "0.5"),
        ("+3", "3"),
        ("007", "7"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1e+3", "1000"),
        ("5e-1", "0.5"),
        ("1E", str(10**18)),
        ("3n", "0.000000003"),
        ("3u", "0.000003"),
        ("1k", "1000"),
        ("1M", "1000000"),
        ("1G", str(10**9)),
        ("1T", str(10**12)),
        ("1P", str(10**15)),
        ("1Ki", "1024"),
        ("1.5Mi", str(3 * 2**19)),
        ("4Gi", str(4 * 2**30)),
        ("1Ti", str(2**40)),
        ("1Pi", str(2**50)),
        ("1Ei", str(2**60)),
        (" 2 ", "2"),
        ("0", "0"),
    ],
)
def test_quantities(quantity: str, expected: str) -> None:
    assert number_of(quantity) == Decimal(expected)


@pytest.mark.parametrize(
    "quantity",
    [
        "",
        " ",
        ".",
        "m",
        "Gi",
        "many",
        "-1",
        "-0.5Gi",
        "1K",
        "1ki",
        "1mi",
        "1gb",
        "1GB",
        "1 Gi",
        "1Gi\n2",
        "1e",
        "1e3Gi",
        "1e1000000000",
        "1_000",
        "1,5",
        "0x10",
        "inf",
        "NaN",
        "1.2.3",
        "++1",
        "\u0663",  # a digit, but not one of Kubernetes'
    ],
)
def test_what_is_no_quantity(quantity: str) -> None:
    with pytest.raises(ValueError, match="is no quantity; write for example"):
        number_of(quantity)


@pytest.mark.parametrize(
    ("quantity", "expected"), [("500m", 500_000_000), ("2.5", 2_500_000_000), ("1n", 1), ("0.0000000001", 1)]
)
def test_cpus_are_rounded_up_to_a_billionth(quantity: str, expected: int) -> None:
    assert nano_cpus(quantity) == expected


@pytest.mark.parametrize(("quantity", "expected"), [("1", 1), ("100m", 1), ("1.5Ki", 1536), ("1.0001Ki", 1025)])
def test_bytes_are_rounded_up(quantity: str, expected: int) -> None:
    assert whole_bytes(quantity) == expected


@given(st.integers(0, 2**63))
def test_whole_numbers_are_exact(number: int) -> None:
    assert whole_bytes(str(number)) == number


@given(st.integers(0, 2**13 - 1), st.sampled_from(["Ki", "Mi", "Gi", "Ti", "Pi"]))
def test_binary_suffixes_are_exact(number: int, suffix: str) -> None:
    power = ["Ki", "Mi", "Gi", "Ti", "Pi"].index(suffix) + 1
    assert whole_bytes(f"{number}{suffix}") == number * 1024**power
