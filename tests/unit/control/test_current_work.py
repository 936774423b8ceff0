"""What happens on several servers, as one list."""

from __future__ import annotations

from noetl.control.current_work import ALL_FRAMES_MAX, joined_work
from noetl.ports import CurrentWork, FrameAtWork, PoolBacklog


def frame(number: int) -> FrameAtWork:
    return FrameAtWork("e", "p", f"start#1[{number}]", None, "w", 1.0)


def test_the_frames_and_the_backlogs_of_servers_are_added() -> None:
    works = [
        CurrentWork((frame(0),), {"gpu": PoolBacklog(2, 5.0), "default": PoolBacklog(1)}),
        CurrentWork((frame(1),), {"gpu": PoolBacklog(3, 9.0)}),
    ]
    backlog = {"default": PoolBacklog(1), "gpu": PoolBacklog(5, 9.0)}
    assert joined_work(works) == CurrentWork((frame(0), frame(1)), backlog)


def test_a_server_that_does_not_answer_makes_the_list_incomplete() -> None:
    assert joined_work([CurrentWork((frame(0),)), CurrentWork(complete=False)]) == CurrentWork((frame(0),), {}, False)


def test_a_list_has_a_limit() -> None:
    many = CurrentWork(tuple(map(frame, range(ALL_FRAMES_MAX))))
    assert len(joined_work([many, many]).frames) == ALL_FRAMES_MAX
