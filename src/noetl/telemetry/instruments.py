"""Counters, histograms and gauges that cost a fraction of a microsecond; scrapes are rendered from them.

Only the thread of the event loop writes them; other threads may read them at any time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

Labels: TypeAlias = str | tuple[str, ...]  # the values of a meter's labels: one as it is, several as a tuple
Read: TypeAlias = Callable[[], Mapping[Labels, float]]

NONE: Final = ()  # the labels of a meter that has none
OTHER: Final = "other"  # all values beyond the limit of a label
LABEL_CHARS_MAX: Final = 120
LATENCY_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
DURATION_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 10000.0)


class Counter:
    """A number that only grows, for each combination of labels."""

    kind: Final = "counter"

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...]) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self.values: defaultdict[Labels, float] = defaultdict(int)

    def add(self, labels: Labels = NONE, by: float = 1) -> None:
        self.values[labels] += by


class Cell:
    """One combination of labels of a histogram. Frequent callers keep a reference to it."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Histogram:
    """The distribution of a quantity in buckets: seconds or sizes."""

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

    def observe(self, value: float, labels: Labels = NONE) -> None:
        self.of(labels).observe(value)


class Gauge:
    """A number that is read at each scrape. Without a reader it is not exported."""

    kind: Final = "gauge"

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...]) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self.read: Read | None = None

    def read_from(self, read: Callable[[], float]) -> None:
        """Set the reader of a gauge without labels."""
        self.read = lambda: {NONE: read()}


Meter: TypeAlias = Counter | Histogram | Gauge
_M = TypeVar("_M", Counter, Histogram, Gauge)


class MeterRegistry:
    """All meters of a process, in the order of their documentation."""

    def __init__(self) -> None:
        self.meters: list[Meter] = []
        self.before_read: list[Callable[[], None]] = []  # called before each scrape: deferred counting

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return self._add(Counter(name, meaning, labels))

    def histogram(
        self, name: str, meaning: str, *labels: str, bounds: Sequence[float] = LATENCY_S
    ) -> Histogram:
        return self._add(Histogram(name, meaning, labels, bounds))

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return self._add(Gauge(name, meaning, labels))

    def _add(self, meter: _M) -> _M:
        self.meters.append(meter)
        return meter


class BoundedLabel:
    """Limits the values of a label that users choose: the first `most` stay, all others become "other"."""

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
