"""Pointers that nobody has followed, and since when."""

from __future__ import annotations

from noetl.telemetry.pending import PENDING_MAX, Pending, Waiting


def test_a_pointer_that_is_put_again_has_waited_since_the_first() -> None:
    pending = Pending()
    pending.put("e", "a#1", "gpu", 1.0)
    pending.put("e", "a#1", "gpu", 5.0)
    assert pending.begun("e", "a#1") == Waiting("gpu", 1.0)
    assert pending.begun("e", "a#1") is None


def test_the_oldest_of_each_pool_is_told_and_what_nobody_waits_for_is_forgotten() -> None:
    pending = Pending()
    for place, (frame, pool) in enumerate([("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")]):
        pending.put("e", frame, pool, float(place))
    assert pending.oldest(lambda _execution, frame: frame != "b") == {"x": 0.0, "y": 3.0}
    assert pending.begun("e", "b") is None


def test_there_is_a_limit_and_the_oldest_goes_first() -> None:
    pending = Pending()
    for number in range(PENDING_MAX + 1):
        pending.put("e", str(number), "x", float(number))
    assert pending.begun("e", "0") is None
    assert pending.begun("e", "1") == Waiting("x", 1.0)
