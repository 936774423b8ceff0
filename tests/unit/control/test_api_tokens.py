"""New tokens: what is in them, what is kept of them, and what can be none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from noetl.control.api_tokens import digest_of, new_token
from noetl.errors import Rejected
from noetl.testing import FakeClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def made(name: str = "ci", scopes: Iterable[str] = ("read",), expires_at: datetime | None = None) -> tuple[str, str]:
    token, text = new_token(name, scopes, expires_at, FakeClock(NOW), os.urandom)
    return token.id, text


def test_a_token_names_its_id_and_holds_32_bytes_that_nobody_can_guess() -> None:
    drawn: list[int] = []

    def random(size: int) -> bytes:
        drawn.append(size)
        return bytes([len(drawn)]) * size

    token, text = new_token("ci", ["run", "read", "run"], NOW + timedelta(days=1), FakeClock(NOW), random)
    assert token == (
        "0101010101010101",
        "ci",
        frozenset({"read", "run"}),
        NOW,
        NOW + timedelta(days=1),
        (),
    )
    assert text == "noetl_0101010101010101_AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"
    assert drawn == [8, 32]


def test_no_two_tokens_are_alike_and_each_has_a_digest_of_its_own() -> None:
    many = [made() for _ in range(50)]
    assert len({id for id, _ in many}) == len({digest_of(text) for _, text in many}) == 50
    assert all(re.fullmatch(rf"noetl_{id}_[A-Za-z0-9_-]{{43}}", text) for id, text in many)
    assert all(len(digest_of(text)) == 32 for _, text in many)


def test_whatever_text_comes_has_a_digest() -> None:
    strange = ["", "noetl_", "half \ud800", "ü", "\0", "x" * 100_000]
    assert len({digest_of(text) for text in strange}) == len(strange)


@pytest.mark.parametrize(
    ("name", "scopes", "lasts_s", "code"),
    [
        ("", ["read"], None, "bad-name"),
        ("  ", ["read"], None, "bad-name"),
        ("a\nb", ["read"], None, "bad-name"),
        ("half \ud800", ["read"], None, "bad-name"),
        ("x" * 101, ["read"], None, "bad-name"),
        ("ci", [], None, "bad-scope"),
        ("ci", ["read", "root"], None, "bad-scope"),
        ("ci", ["READ"], None, "bad-scope"),
        ("ci", ["read"], 0.0, "bad-expiry"),
        ("ci", ["read"], -1.0, "bad-expiry"),
    ],
)
def test_what_can_be_no_token_is_refused(name: str, scopes: list[str], lasts_s: float | None, code: str) -> None:
    expires_at = None if lasts_s is None else NOW + timedelta(seconds=lasts_s)
    with pytest.raises(Rejected) as caught:
        made(name, scopes, expires_at)
    assert caught.value.code == code
