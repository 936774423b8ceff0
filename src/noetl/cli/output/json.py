"""JSON for programs: one document, or one per line. People get YAML.

Characters that could forge text on a terminal are escaped, which changes only the spelling of the values.
"""

from __future__ import annotations

import re

import msgspec

from noetl.output import JSON

_FORGING = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff]")
_encode = msgspec.json.Encoder().encode


def as_document(value: object) -> str:
    """Indented, with a newline at the end."""
    return f"{_harmless(msgspec.json.format(_encode(value), indent=2))}\n"


def as_line(value: object) -> str:
    """The shortest form, on one line."""
    return f"{_harmless(_encode(value))}\n"


def as_lines(value: JSON) -> list[str]:
    """A value for people: YAML, and a string as it is."""
    if isinstance(value, str):
        return value.splitlines() or [""]
    if isinstance(value, dict | list):
        from noetl.playbook.write import emit  # JSON output does not need it

        return emit(value).splitlines()
    return [_harmless(_encode(value))]


def _harmless(encoded: bytes) -> str:
    text = encoded.decode()
    if text.isascii() and "\x7f" not in text:
        return text
    return _FORGING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
