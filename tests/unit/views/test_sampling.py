"""Counts along a log in few samples."""

from __future__ import annotations

from itertools import pairwise

from noetl.views.step_counts import Track


def test_few_samples_are_all_kept() -> None:
    track = Track()
    track.put(3, 1)
    track.put(5, 2, turn=False)
    assert track.samples() == ((3, 1), (5, 2))


def test_two_samples_of_one_fact_are_one() -> None:
    track = Track()
    track.put(3, 1)
    track.put(3, 2, turn=False)
    assert track.samples() == ((3, 2),)


def test_ten_thousand_steps_of_progress_leave_every_turn_and_the_exact_end() -> None:
    track = Track(100)
    track.put(1, 0)
    for seq in range(2, 10_002):
        track.put(seq, seq - 1, turn=seq == 5_000)
    track.put(10_002, 0)
    samples = track.samples()
    assert len(samples) <= 100
    assert {(1, 0), (5_000, 4_999), (10_001, 10_000), (10_002, 0)} <= {*samples}
    assert [*samples] == sorted(samples)
    gaps = [after[0] - before[0] for before, after in pairwise(samples)]
    assert max(gaps) <= 1_000, "what is left is spread over the whole log"


def test_when_there_are_only_turns_half_of_them_go() -> None:
    track = Track(10)
    for seq in range(1, 200):
        track.put(seq, seq)
    assert len(track.samples()) <= 10
    assert track.samples()[-1] == (199, 199)
