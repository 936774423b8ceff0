"""Counts and timings, and labels that others choose."""

from __future__ import annotations

from noetl.telemetry.metrics import LABEL_CHARS_MAX, OTHER, BoundedLabel, MeterRegistry


def test_a_timing_puts_a_value_into_the_bucket_that_its_bound_closes() -> None:
    timing = MeterRegistry().histogram("t", "", bounds=(1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        timing.observe(value)
    cell = timing.of()
    assert (cell.counts, cell.total) == ([2, 2, 1], 14.0)


def test_a_label_has_so_many_values_and_then_others() -> None:
    label = BoundedLabel(2)
    assert [label(value) for value in ("a", "b", "c", "a", "d")] == ["a", "b", OTHER, "a", OTHER]


def test_a_label_that_is_empty_or_endless_is_another() -> None:
    label = BoundedLabel(9)
    assert [label(""), label("x" * (LABEL_CHARS_MAX + 1))] == [OTHER, OTHER]
    assert label("x" * LABEL_CHARS_MAX) == "x" * LABEL_CHARS_MAX


def test_a_meter_without_labels_counts_under_none() -> None:
    count = MeterRegistry().counter("c", "")
    count.add()
    count.add(by=2)
    assert dict(count.values) == {(): 3}
