"""The envelope as templates read it (D21)."""

from __future__ import annotations

import msgspec
import pytest

from noetl.output import Failure, Output, failed


def test_an_ok_output_has_neither_error_nor_ref_d21() -> None:
    output = Output(data=[1], own={"http": {"status": 200}}, meta={"attempt": 1})
    assert output.view() == {
        "status": "ok",
        "data": [1],
        "meta": {"attempt": 1},
        "http": {"status": 200},
    }


def test_a_failure_is_seen_with_all_its_parts_d21() -> None:
    assert failed("timeout", "it took too long", retryable=True).view() == {
        "status": "error",
        "data": None,
        "meta": {},
        "error": {"kind": "timeout", "message": "it took too long", "retryable": True, "details": {}},
    }


def test_a_ref_is_seen_where_there_is_one_d21() -> None:
    ref = {"type": "blob", "locator": {"key": "e/1"}}
    assert Output(ref=ref).view()["ref"] == ref


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (Output(), "{}"),
        (Output(data=None, meta={"count": 2}), '{"meta":{"count":2}}'),
        (failed("http", "503"), '{"status":"error","error":{"kind":"http","message":"503"}}'),
        (
            Output(data={"a": [1, None]}, ref={"type": "blob"}),
            '{"data":{"a":[1,null]},"ref":{"type":"blob"}}',
        ),
    ],
)
def test_what_is_not_said_takes_no_room_in_the_log_and_comes_back(output: Output, text: str) -> None:
    assert msgspec.json.encode(output).decode() == text
    assert msgspec.json.decode(text, type=Output) == output


def test_details_of_a_failure_are_kept() -> None:
    failure = Failure(kind="limit", message="too many", details={"limit": "tokens"})
    assert failure.view()["details"] == {"limit": "tokens"}
