"""Counts and timings that cost a fraction of a microsecond; what a scrape shows is made from them then.

They are written by one thread, the loop's; another one may read them at any time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

Labels: TypeAlias = str | tuple[str, ...]  # the values of a meter's labels: one as it is, several as a tuple
Read: TypeAlias = Callable[[], Mapping[Labels, float]]

NONE: Final = ()  # the labels of a meter that has none
OTHER: Final = "other"  # whatever came after the last value that a label may have
LABEL_CHARS_MAX: Final = 120
LATENCY_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
DURATION_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 10000.0)


class Count:
    """A number for each combination of labels that only grows."""

    kind: Final = "counter"

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...]) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self.values: defaultdict[Labels, float] = defaultdict(int)

    def add(self, labels: Labels = NONE, by: float = 1) -> None:
        self.values[labels] += by


class Cell:
    """One combination of labels of a timing. Whoever sees often keeps hold of it."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def see(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Timing:
    """How a quantity is spread, in buckets; most are seconds, some are sizes."""

    kind: Final = "histogram"

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...], bounds: Sequence[float]) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self.bounds = tuple(bounds)
        self.cells: dict[Labels, Cell] = {}

    def of(self, labels: Labels = NONE) -> Cell:
        cell = self.cells.get(labels)
        if cell is None:
            cell = self.cells[labels] = Cell(self.bounds)
        return cell

    def see(self, value: float, labels: Labels = NONE) -> None:
        self.of(labels).see(value)


class Gauge:
    """A number that is looked up when somebody asks. Without a reading it is not shown."""

    kind: Final = "gauge"

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...]) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self.read: Read | None = None

    def reads(self, read: Callable[[], float]) -> None:
        """Of a gauge without labels."""
        self.read = lambda: {NONE: read()}


Meter: TypeAlias = Count | Timing | Gauge
_M = TypeVar("_M", Count, Timing, Gauge)


class Book:
    """All meters of a process, in the order in which they are documented."""

    def __init__(self) -> None:
        self.meters: list[Meter] = []
        self.before: list[Callable[[], None]] = []  # done before they are read: what was put off

    def count(self, name: str, meaning: str, *labels: str) -> Count:
        return self._add(Count(name, meaning, labels))

    def timing(self, name: str, meaning: str, *labels: str, bounds: Sequence[float] = LATENCY_S) -> Timing:
        return self._add(Timing(name, meaning, labels, bounds))

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return self._add(Gauge(name, meaning, labels))

    def _add(self, meter: _M) -> _M:
        self.meters.append(meter)
        return meter


class Bounded:
    """A label that others choose the values of: the first so many are told apart, the rest is "other"."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def __call__(self, value: str) -> str:
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) >= self._most or not value or len(value) > LABEL_CHARS_MAX:
            return OTHER
        self._known[value] = value
        return value


def labelled(labels: Labels) -> tuple[str, ...]:
    return (labels,) if isinstance(labels, str) else labels
