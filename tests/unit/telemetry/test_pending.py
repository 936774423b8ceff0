"""Pointers that no worker has claimed, and how long they have waited."""

from __future__ import annotations

from noetl.telemetry.measured import PENDING_MAX, PendingPointer, PendingPointers


def test_a_pointer_that_is_put_again_has_waited_since_the_first() -> None:
    pending = PendingPointers()
    pending.add("e", "a#1", "gpu", 1.0)
    pending.add("e", "a#1", "gpu", 5.0)
    assert pending.remove("e", "a#1") == PendingPointer("gpu", 1.0)
    assert pending.remove("e", "a#1") is None


def test_the_oldest_of_each_pool_is_told_and_what_nobody_waits_for_is_forgotten() -> None:
    pending = PendingPointers()
    for place, (frame, pool) in enumerate([("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")]):
        pending.add("e", frame, pool, float(place))
    assert pending.oldest(lambda _execution, frame: frame != "b") == {"x": 0.0, "y": 3.0}
    assert pending.remove("e", "b") is None


def test_there_is_a_limit_and_the_oldest_goes_first() -> None:
    pending = PendingPointers()
    for number in range(PENDING_MAX + 1):
        pending.add("e", str(number), "x", float(number))
    assert pending.remove("e", "0") is None
    assert pending.remove("e", "1") == PendingPointer("x", 1.0)
