"""The values of unquoted scalars in YAML 1.2, and numbers that JSON cannot represent."""

from __future__ import annotations

import pytest

from noetl.output import JSON
from noetl.playbook.source import resolve


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("off", "off"),
        ("010", "010"),
        ("0777", "0777"),
        ("12:30", "12:30"),
        ("12:30:45", "12:30:45"),
        ("2026-11-15", "2026-11-15"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("12", 12),
        ("-0", 0),
        ("+7", 7),
        ("123456789012345678", 123456789012345678),
        ("9223372036854775807", 9223372036854775807),
        ("١٢", "١٢"),
        ("1²", "1²"),
        ("0x1F", 31),
        ("0o17", 15),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("-", "-"),
        (".", "."),
        ("1.2.3", "1.2.3"),
    ],
)
def test_plain_scalars_are_read_as_yaml_1_2(text: str, meant: JSON) -> None:
    found = resolve(text)
    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "1e999", ".inf", "-.INF", ".nan"])
def test_a_number_that_json_cannot_represent_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        resolve(text)
