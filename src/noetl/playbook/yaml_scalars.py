"""The value of an unquoted scalar in the core schema of YAML 1.2: null, a boolean, a number or text."""

from __future__ import annotations

import math
import re
from typing import Final

CONSTANTS: Final[dict[str, bool | int | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
NUMBER_START: Final = frozenset("0123456789+-.")
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_RADIX: Final = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_JSON: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")


def resolve(text: str) -> bool | int | float | str | None:
    """The value of an unquoted YAML 1.2 scalar. Raises ValueError for a number that JSON cannot represent."""
    if text.isdigit() and text.isascii() and text[0] != "0" and len(text) < 19:
        return int(text)  # a fast path for most numbers
    if text in CONSTANTS:
        return CONSTANTS[text]
    if text[0] not in NUMBER_START:
        return text
    base = 10 if _INT.match(text) else 0 if _RADIX.match(text) else None
    if base is not None:
        if len(text) > 30 or not -(2**63) <= (whole := int(text, base)) < 2**63:
            raise ValueError("a whole number must fit in 64 bits")
        return whole
    if _FLOAT.match(text):
        if not math.isfinite(number := float(text)):
            raise ValueError("a number must be finite")
        return number
    if _NOT_JSON.match(text):
        raise ValueError("a number must be finite")
    return text
