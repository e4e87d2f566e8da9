"""Quantities of CPU and memory in Kubernetes' notation → numbers (Kubernetes documentation, "Quantity")."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

_QUANTITY = re.compile(r"\+?(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,2})|([a-zA-Z]*))", re.ASCII)
_FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}


def number_of(quantity: str) -> Decimal:
    """The value of a quantity such as `500m`, `2.5`, `1e3` or `4Gi`.

    :raises ValueError: it is none
    """
    match = _QUANTITY.fullmatch(quantity.strip())
    if match is None or (match[3] or "") not in _FACTORS:
        raise ValueError(f"{quantity!r} is no quantity; write for example '500m', '2', '512Mi' or '4Gi'")
    return Decimal(match[1] + (match[2] or "")) * _FACTORS[match[3] or ""]


def nano_cpus(quantity: str) -> int:
    """CPUs in billionths, rounded up.

    :raises ValueError: see `number_of`
    """
    return int((number_of(quantity) * 10**9).to_integral_value(ROUND_CEILING))


def whole_bytes(quantity: str) -> int:
    """Bytes, rounded up.

    :raises ValueError: see `number_of`
    """
    return int(number_of(quantity).to_integral_value(ROUND_CEILING))
