"""Numbers as text without letters that look alike."""

from __future__ import annotations

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def encode(number: int) -> str:
    """A number that is not negative, as digits of base 58."""
    digits = ""
    while number:
        number, rest = divmod(number, 58)
        digits = ALPHABET[rest] + digits
    return digits or ALPHABET[0]


def decode(text: str) -> int:
    """The inverse of `encode`.

    :raises ValueError: a character that is no digit
    """
    number = 0
    for character in text:
        value = ALPHABET.find(character)
        if value < 0:
            raise ValueError(f"{text!r} is not base 58")
        number = number * 58 + value
    return number
