"""Large JSON in slices: the same values and texts as at once, and an invalid text is never accepted."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Generator
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from noetl import json_slices
from noetl.json_slices import (
    SLICED_BYTES_MIN,
    Irregular,
    decode_in_slices,
    decode_slices,
    encode_large,
    encode_slices,
    release_slices,
)
from noetl.slices import SLICE_S, in_slices, turn
from tests.sizes import examples

T = TypeVar("T")
TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(['"', "\\", '\\"[{', ",]}", "é𝄞\u2028"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXT, inner, max_size=6), max_leaves=40
)
SPACES = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n\t", " :\r ")])


def run(work: Generator[None, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


@pytest.fixture(autouse=True, params=[4, 64], scope="module")
def small_slices(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """So that small texts have many slices."""
    patch = pytest.MonkeyPatch()
    patch.setattr(json_slices, "SLICE_BYTES", request.param)
    yield
    patch.undo()


@given(VALUES, SPACES, st.booleans())
@hypothesis_settings(max_examples=examples(2_000))
def test_values_are_those_of_the_decoder(value: Any, separators: tuple[str, str], is_ascii: bool) -> None:
    body = json.dumps([value, {"a": value}], separators=separators, ensure_ascii=is_ascii).encode()
    assert repr(run(decode_slices(body))) == repr(msgspec.json.decode(body))


@given(
    VALUES, SPACES, st.lists(st.tuples(st.integers(0), st.sampled_from(list('[]{},:" \\01nu'))), max_size=3), st.data()
)
@hypothesis_settings(max_examples=examples(2_000))
def test_a_text_that_the_decoder_refuses_is_not_accepted(
    value: Any, separators: tuple[str, str], edits: list[tuple[int, str]], data: st.DataObject
) -> None:
    text = json.dumps([value, {"a": [value]}], separators=separators)
    for at, character in edits:
        place = at % len(text)
        text = text[:place] + character + text[place + data.draw(st.integers(0, 1)) :]
    body = text.encode()
    try:
        found = run(decode_slices(body))
    except (Irregular, msgspec.DecodeError, UnicodeDecodeError):
        return  # it is decoded at once
    assert repr(found) == repr(msgspec.json.decode(body))


@given(VALUES)
@hypothesis_settings(max_examples=examples(2_000))
def test_the_text_is_that_of_the_encoder(value: Any) -> None:
    assert b"".join(run(encode_slices(value))) == msgspec.json.encode(value)
    assert b"".join(run(encode_slices({"a": [value, value]}))) == msgspec.json.encode({"a": [value, value]})


@pytest.mark.parametrize(
    "text",
    [
        "[,1]", "[1,]", "[1,,2]", "[[1,2,3]4]", "[[1,2,3],]", "[[1,2,3] [4,5,6]]", "[,[1,2,3]]", '{"a":[1,2,3],}', '{[1,2,3]}',
        '{1:[1,2,3]}', '{"a"[1,2,3]}', '{"a":[1,2,3] "b":1}', "[1,2,3", "[1,2,3]]", "[1,2,3}", '["aaaaaaaaaaaa', "[1,2,3] x", "",
        "[1 2 3 4 5 6]", '{"a":1:[1,2,3]}', "[x[1,2,3]]",
    ],
)  # fmt: skip
def test_mistakes_in_every_place_are_noticed(text: str) -> None:
    with pytest.raises((Irregular, msgspec.DecodeError)):
        run(decode_slices(text.encode()))


def test_keys_that_repeat_are_as_in_the_decoder() -> None:
    body = b'{"a":1,"b":[1,2,3,4,5,6,7,8],"a":[9,9,9,9,9,9,9,9],"b":2}'
    assert list(run(decode_slices(body)).items()) == list(msgspec.json.decode(body).items())


def test_deep_texts_and_scalars_are_decoded_at_once() -> None:
    for body in (b"[" * 65 + b"]" * 65, b'"' + b"a" * 100 + b'"', b"1" * 100):
        with pytest.raises(Irregular):
            run(decode_slices(body))


def test_the_garbage_collector_does_not_examine_large_containers() -> None:
    value = run(decode_slices(msgspec.json.encode({"rows": [[number] for number in range(1_000)], "more": [[1]] * 50})))
    assert type(value) is dict
    assert [gc.is_tracked(each) for each in (value, value["rows"])] == [False, False]


def test_values_that_are_used_elsewhere_are_not_freed() -> None:
    rows = [{"row": [[number]] * 600} for number in range(600)]
    kept, copies = rows[3], [list(rows[3]["row"]), rows[5]["row"]]
    inner, count = rows[7]["row"], len(rows)
    run(release_slices([rows]))
    assert len(rows) == count, "this test uses it"
    made = [rows]
    del rows
    run(release_slices(made))
    assert kept == {"row": copies[0]}
    assert (len(copies[1]), inner[:1]) == (600, [[7]])
    mapping = {"a": {str(number): [number] for number in range(1_000)}, "b": 1}
    text = mapping["a"]
    owned: list[Any] = [mapping]
    del mapping
    run(release_slices(owned))
    assert text == {str(number): [number] for number in range(1_000)}


def test_others_have_turns_while_a_large_text_is_decoded_and_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_slices, "SLICE_BYTES", 16_384)
    value = [{"id": number, "name": f"record {number}"} for number in range(20_000)]
    body = json.dumps(value).encode()
    assert len(body) > SLICED_BYTES_MIN

    async def work() -> tuple[int, int]:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await turn()

        counting = asyncio.ensure_future(count())
        assert await decode_in_slices(body) == value
        after_decoding = turns
        assert await encode_large(value) == msgspec.json.encode(value)
        counting.cancel()
        return after_decoding, turns - after_decoding

    decoding, encoding = asyncio.run(work())
    assert decoding > 5
    assert encoding > 5


def test_several_computations_share_the_turns() -> None:
    done: list[str] = []

    def steps(name: str, count: int) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        for _ in range(count):
            end = loop.time() + 2 * SLICE_S
            while loop.time() < end:
                pass
            yield
        done.append(name)

    async def work() -> None:
        await asyncio.gather(in_slices(steps("long", 40)), in_slices(steps("short", 2)))

    asyncio.run(work())
    assert done == ["short", "long"], "the short one does not wait for the long one"
