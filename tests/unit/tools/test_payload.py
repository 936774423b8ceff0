"""Bytes become JSON values of an output, or an error that explains why not."""

from __future__ import annotations

import pytest

from noetl.tools.payload import InvalidJson, JsonTooDeep, decode_json, is_json, text_or_base64


def test_json_that_would_exhaust_the_stack_is_refused() -> None:
    with pytest.raises(InvalidJson, match="is nested deeper than 64 levels"):
        decode_json(b"[" * 100_000 + b"]" * 100_000)


def test_json_may_be_nested_as_deeply_as_an_output() -> None:
    deep: list[object] = []
    for _ in range(63):
        deep = [deep]
    assert decode_json(b"[" * 64 + b"]" * 64) == deep
    with pytest.raises(JsonTooDeep):
        decode_json(b"[" * 65 + b"]" * 65)


@pytest.mark.parametrize("body", [b"NaN", b"1e400", b"{", b'{"a":1}x', b"\xff", b'"\\ud800"'])
def test_invalid_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidJson, match="is not valid JSON"):
        decode_json(body)


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
def test_json_is_recognised_by_its_media_type(media: str, yes: bool) -> None:
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
def test_bytes_that_are_not_text_become_base64(charset: str | None, data: object) -> None:
    assert text_or_base64(b"\xe4", charset) == data
