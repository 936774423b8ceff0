"""Ids are paths, and a frame's id can be taken apart again."""

from __future__ import annotations

import pytest

from noetl.ids import block_run_id, call_id, frame_id, frame_of_call, frame_parts, names_in_call, run_id, token_id


def test_ids_are_made_of_where_things_are() -> None:
    run = run_id("crawl", 2)
    frame = frame_id(run, 17)
    inner = frame_id(block_run_id(frame, "hotels", 1), 7)
    assert [
        run,
        frame_id(run, None),
        frame,
        call_id(frame, 5),
        token_id(run, 0),
        inner,
        call_id(inner, 1),
    ] == [
        "crawl#2",
        "crawl#2",
        "crawl#2[17]",
        "crawl#2[17]/5",
        "crawl#2>0",
        "crawl#2[17]/hotels#1[7]",
        "crawl#2[17]/hotels#1[7]/1",
    ]


@pytest.mark.parametrize(
    ("run", "index"),
    [("a#1", None), ("a#1", 0), ("a#1[3]/b#2", None), ("a#1[3]/b#2", 4), ("a#1/b#1[2]/c#9", 100_000)],
)
def test_a_frame_is_taken_apart_into_its_run_and_its_index(run: str, index: int | None) -> None:
    assert frame_parts(frame_id(run, index)) == (run, index)


def test_names_of_a_call_for_people() -> None:
    names = names_in_call("crawl#1[3]/hotels#1[7]/2")
    assert names == {
        "crawl", "crawl#1", "crawl#1[3]", "hotels", "crawl#1[3]/hotels#1", "crawl#1[3]/hotels#1[7]",
        "crawl#1[3]/hotels#1[7]/2",
    }  # fmt: skip
    assert names_in_call("fetch#2/1") == {"fetch", "fetch#2", "fetch#2/1"}
    assert frame_of_call("crawl#1[3]/hotels#1[7]/2") == "crawl#1[3]/hotels#1[7]"
    for hostile in ("", "/", "x]/1", "[]]/", "#"):
        assert hostile in names_in_call(hostile)
