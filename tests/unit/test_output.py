"""The envelope as templates read it (D21)."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import IntEnum

import msgspec
import pytest

from noetl.output import DATA_LEVELS_MAX, JSON, Failure, NotJSON, Output, clean, clean_decoded, failed


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


class Level(IntEnum):
    HIGH = 3


class Word(str):
    """Text of another type, as libraries give it."""

    __slots__ = ()


def nested(levels: int) -> JSON:
    value: JSON = 1
    for _ in range(levels):
        value = [value]
    return value


FINE: list[JSON] = [
    None,
    True,
    17,
    -(2**70),
    1.5,
    "text",
    "é 😀",
    [],
    {},
    {"id": 1, "rows": [{"name": "x", "é": [1, 2.5, None, False]}]},
    list(range(100)),
    [1.5] * 100,
    ["x"] * 100,
    ["é"] * 100,
    [1, "x", None] * 20,
    nested(64),
]


@pytest.mark.parametrize("value", FINE, ids=range(len(FINE)))
def test_data_that_is_json_stays_the_very_same(value: JSON) -> None:
    assert clean(value) is value


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ((1, (2,)), [1, [2]]),
        ({7: "a", 2.5: "b", None: "c", True: "d"}, {"7": "a", "2.5": "b", "null": "c", "true": "d"}),
        ("half \ud83d of a pair", "half \ufffd of a pair"),
        ({"k\udc00": ["\ud800"] * 20}, {"k\ufffd": ["\ufffd"] * 20}),
        ([Level.HIGH, Word("x")], [3, "x"]),
        ({"rows": ({"id": 1}, {"id": 2})}, {"rows": [{"id": 1}, {"id": 2}]}),
    ],
)
def test_data_that_json_says_otherwise_is_said_so(value: JSON, made: JSON) -> None:
    found = clean(value)
    assert found == made
    assert msgspec.json.decode(msgspec.json.encode(found)) == made
    assert clean(found) is found


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rows": [{"price": float("nan")}]}, "data.rows[0].price is nan, and JSON has only finite numbers"),
        ([1.5] * 20 + [float("-inf")], "data[20] is -inf, and JSON has only finite numbers"),
        ({"body": b"x"}, "data.body is of type bytes, which JSON does not support"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "data[0] is of type datetime, which JSON does not support"),
        ({1, 2}, "data is of type set, which JSON does not support"),
        ({(1, 2): 3}, "data has a key of type tuple, and keys are text"),
        ({float("inf"): 3}, "a key of data is inf, and JSON has only finite numbers"),
        ({1: "a", "1": "b"}, 'data has two keys that are both "1" as text'),
        (nested(65), f"data{'[0]' * 64} is nested deeper than 64 levels"),
        ([10**5_000], "data[0] is an integer of more than 14,000 bits"),
    ],
    ids=range(10),
)
def test_data_that_json_has_no_word_for_is_refused_with_its_place(value: JSON, message: str) -> None:
    with pytest.raises(NotJSON) as caught:
        clean(value)
    assert str(caught.value) == message


def test_data_that_holds_itself_is_refused() -> None:
    value: list[JSON] = []
    value.append(value)
    with pytest.raises(NotJSON, match="64 levels"):
        clean(value)


def test_decoded_data_is_looked_at_for_its_depth_alone() -> None:
    values: list[JSON] = [None, 1, "x", [], {"a": [1, {"b": []}]}, nested(DATA_LEVELS_MAX)]
    for value in values:
        assert clean_decoded(value) is value
    with pytest.raises(NotJSON):
        clean_decoded(nested(DATA_LEVELS_MAX + 1))
