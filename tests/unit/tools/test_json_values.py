"""Bytes from outside become plain JSON, or an error that says why not."""

from __future__ import annotations

import pytest

from noetl.tools.json_values import NotPlain, TooDeep, is_json, parsed, text_or_base64


def test_json_that_would_exhaust_the_stack_is_refused() -> None:
    with pytest.raises(NotPlain, match="is nested deeper than 64 levels"):
        parsed(b"[" * 100_000 + b"]" * 100_000)


def test_json_may_be_as_deep_as_an_output_and_no_deeper() -> None:
    deep: list[object] = []
    for _ in range(63):
        deep = [deep]
    assert parsed(b"[" * 64 + b"]" * 64) == deep
    with pytest.raises(TooDeep):
        parsed(b"[" * 65 + b"]" * 65)


@pytest.mark.parametrize("body", [b"NaN", b"1e400", b"{", b'{"a":1}x', b"\xff", b'"\\ud800"'])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(NotPlain, match="is no JSON"):
        parsed(body)


@pytest.mark.parametrize(
    ("media", "yes"),
    [
        ("application/json", True),
        ("Application/Problem+JSON; charset=utf-8", True),
        ("text/html", False),
        ("application/jsonlines", False),
        ("", False),
    ],
)
def test_json_is_announced_by_its_media_type(media: str, yes: bool) -> None:
    assert is_json(media) is yes


@pytest.mark.parametrize(
    ("charset", "data"),
    [
        (None, {"base64": "5A=="}),
        ("latin-1", "ä"),
        ("undefined", {"base64": "5A=="}),
        ("utf-7", {"base64": "5A=="}),
        ("no-such", {"base64": "5A=="}),
    ],
)
def test_what_is_no_text_comes_as_base64(charset: str | None, data: object) -> None:
    assert text_or_base64(b"\xe4", charset) == data
