"""All metrics with their documentation, the cheap meters behind them, and their export to Prometheus.

Only processes that export metrics import the library of Prometheus.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import noetl
from noetl.errors import Rejected

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


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

    def histogram(self, name: str, meaning: str, *labels: str, bounds: Sequence[float] = LATENCY_S) -> Histogram:
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


PLAYBOOKS_MAX: Final = 100  # distinct paths in labels
POOLS_MAX: Final = 50
KINDS_MAX: Final = 100  # of tools
REASONS_MAX: Final = 100  # of refusals
ROUTES_MAX: Final = 200


class StoreMeters:
    """Calls to the event store, and its refusals."""

    def __init__(self, registry: MeterRegistry) -> None:
        self.append_s = registry.histogram(
            "noetl_store_append_seconds", "duration of one call to the event store that commits facts"
        )
        self.appends = registry.counter(
            "noetl_store_appends_total",
            "appends by result: `ok`, `conflict` (another writer was first), `fenced` (another server owns"
            " the execution), `unavailable` (no answer, the result is unknown)",
            "result",
        )
        self.stale = registry.counter(
            "noetl_stale_writes_refused_total",
            "appends that the store refused because another server now owns the execution",
        )
        self.batch = registry.histogram("noetl_store_append_facts", "facts in one append", bounds=SIZES)
        self.read_s = registry.histogram(
            "noetl_store_read_seconds",
            "duration of other calls to the event store: `read`, `status`, `snapshot`, `keep`",
            "operation",
        )
        self.unavailable = registry.counter(
            "noetl_store_unavailable_total", "calls that the event store did not answer", "operation"
        )


class QueueMeters:
    """Pointers on the way to workers."""

    def __init__(self, registry: MeterRegistry) -> None:
        self.put = registry.counter("noetl_queue_put_total", "pointers put into the queue", "pool")
        self.taken = registry.counter("noetl_queue_taken_total", "pointers that workers took from the queue", "pool")
        self.done = registry.counter("noetl_queue_done_total", "pointers acknowledged", "pool")
        self.call_s = registry.histogram(
            "noetl_queue_seconds", "duration of a call to the queue: `put`, `done`", "operation"
        )
        self.unavailable = registry.counter(
            "noetl_queue_unavailable_total", "calls that the queue did not answer", "operation"
        )
        self.wait_s = registry.histogram(
            "noetl_queue_wait_seconds",
            "time from sending a pointer until a worker begins its frame",
            "pool",
            bounds=DURATION_S,
        )


class LinkMeters:
    """Requests of workers and callers to the owner of an execution."""

    def __init__(self, registry: MeterRegistry) -> None:
        self.call_s = registry.histogram(
            "noetl_link_seconds",
            "duration of the requests `begin`, `report`, `beat`, `start`, `command`, `iterations` and `parent`,"
            " including the commit",
            "operation",
        )
        self.refused = registry.counter(
            "noetl_link_refused_total",
            "refused requests by reason: `fenced` and `elsewhere` are late workers, `nothing` is a frame"
            " that has ended or that another worker holds, `unavailable` is no answer; others are error"
            " codes",
            "operation",
            "why",
        )
        self.handed_on = registry.counter(
            "noetl_frames_handed_on_total", "frames granted with the answer to a report, without the queue"
        )
        self.stopped = registry.counter(
            "noetl_frames_stopped_total", "frames that workers had to stop: cancelled, lost or timed out"
        )


class FactMeters:
    """Counts of committed facts. The server that commits a fact counts it."""

    def __init__(self, registry: MeterRegistry) -> None:
        self.facts = registry.counter("noetl_facts_total", "committed facts by kind", "fact")
        self.started = registry.counter("noetl_executions_started_total", "requested executions", "playbook")
        self.ended = registry.counter(
            "noetl_executions_ended_total", "finished executions: `ok`, `error` or `cancelled`", "playbook", "status"
        )
        self.execution_s = registry.histogram(
            "noetl_execution_seconds", "duration of an execution, from request to end", "status", bounds=DURATION_S
        )
        self.step_s = registry.histogram(
            "noetl_step_seconds", "duration of a step run, from scheduling to end", "status", bounds=DURATION_S
        )
        self.step_wait_s = registry.histogram(
            "noetl_step_wait_seconds",
            "time from scheduling a step without a loop to its first call: queue and transfer",
            bounds=DURATION_S,
        )
        self.task_s = registry.histogram(
            "noetl_task_seconds",
            "duration of one task call, by tool kind and `ok`, `error` or `skipped`",
            "kind",
            "status",
            bounds=DURATION_S,
        )
        self.retries = registry.counter("noetl_task_retries_total", "retried calls", "kind")
        self.iterations = registry.counter("noetl_iterations_total", "ended iterations", "status")


class ProcessMeters:
    """Current numbers, and the housekeeping of the process."""

    def __init__(self, registry: MeterRegistry) -> None:
        self.executions = registry.gauge(
            "noetl_executions_live", "executions in this server's memory, by status", "status"
        )
        self.state_bytes = registry.gauge(
            "noetl_state_bytes",
            "size, as JSON, of the executions in this server's memory; an upper bound, which snapshots correct",
        )
        self.state_limit_bytes = registry.gauge(
            "noetl_state_limit_bytes", "limit of this size, `NOETL_STATE_BYTES`; 0: no limit"
        )
        self.waiting = registry.gauge(
            "noetl_frames_waiting", "due frames that no worker has begun (queue depth)", "pool"
        )
        self.oldest_s = registry.gauge(
            "noetl_frames_oldest_seconds", "age of the oldest pointer that no worker has claimed", "pool"
        )
        self.leased = registry.gauge("noetl_frames_leased", "frames that workers hold under a lease", "pool")
        self.commands = registry.gauge("noetl_commands_waiting", "commands and reports that wait for a commit")
        self.partitions = registry.gauge("noetl_partitions_owned", "partitions that this server owns")
        self.timers = registry.gauge("noetl_timers", "pending timers")
        self.followers = registry.gauge("noetl_followers", "open live streams")
        self.workers = registry.gauge("noetl_workers", "live workers", "pool")
        self.slots = registry.gauge("noetl_worker_slots", "slots of the live workers", "pool")
        self.busy = registry.gauge("noetl_worker_slots_busy", "slots that run a frame", "pool")
        self.held = registry.gauge("noetl_frames_held", "frames that this worker runs")
        self.sweep_s = registry.histogram(
            "noetl_sweep_seconds", "duration of a sweep over all open executions", bounds=DURATION_S
        )
        self.lost = registry.counter(
            "noetl_frames_lost_total", "frames whose worker or pointer was lost, as found by sweeps"
        )
        self.lag_s = registry.histogram(
            "noetl_loop_lag_seconds", "delay of the event loop: above 0.1 s the process is overloaded"
        )
        self.request_s = registry.histogram(
            "noetl_api_request_seconds",
            "duration of API requests; for a live stream the time to its first byte",
            "method",
            "route",
            "status",
        )
        self.spans = registry.counter("noetl_spans_total", "spans by result: `sent`, `dropped`", "result")


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        self.registry = MeterRegistry()
        self.store = StoreMeters(self.registry)
        self.queue = QueueMeters(self.registry)
        self.link = LinkMeters(self.registry)
        self.facts = FactMeters(self.registry)
        self.process = ProcessMeters(self.registry)
        self.playbook = BoundedLabel(PLAYBOOKS_MAX)
        self.pool = BoundedLabel(POOLS_MAX)
        self.kind = BoundedLabel(KINDS_MAX)
        self.reason = BoundedLabel(REASONS_MAX)
        self.route = BoundedLabel(ROUTES_MAX)


def make_registry(metrics: Metrics) -> CollectorRegistry:
    """A registry that includes the memory, the CPU time and the open files of the process."""
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    registry.register(_Collector(metrics))
    ProcessCollector(registry=registry)
    return registry


def serve_metrics(registry: CollectorRegistry, address: str) -> Callable[[], None]:
    """Serve the metrics of a worker, which has no API, at host:port. Returns the function that stops it.

    Raises Rejected when the address is invalid or in use.
    """
    from prometheus_client import start_http_server

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise Rejected("bad-setting", f'NOETL_METRICS must be host:port, such as 127.0.0.1:9464, not "{address}"')
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        reason = f"metrics cannot be served at {address}: {error.strerror}"
        raise Rejected("bad-setting", reason) from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close


class _Collector:
    """Implements the collector of the library."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import InfoMetricFamily

        yield InfoMetricFamily("noetl_build", "the running version", {"version": noetl.__version__})
        for prepare in self._metrics.registry.before_read:
            prepare()
        for meter in self._metrics.registry.meters:
            yield _family(meter)


def _family(meter: Meter) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if isinstance(meter, Counter):
        counter = CounterMetricFamily(meter.name, meter.meaning, labels=meter.labels)
        values = list(meter.values.items()) or ([((), 0.0)] if not meter.labels else [])
        for labels, value in values:
            counter.add_metric(labelled(labels), value)
        return counter
    if isinstance(meter, Gauge):
        gauge = GaugeMetricFamily(meter.name, meter.meaning, labels=meter.labels)
        for labels, value in meter.read().items() if meter.read is not None else ():
            gauge.add_metric(labelled(labels), value)
        return gauge
    histogram = HistogramMetricFamily(meter.name, meter.meaning, labels=meter.labels)
    for labels, cell in list(meter.cells.items()):
        histogram.add_metric(labelled(labels), _buckets(meter, cell.counts), cell.total)
    return histogram


def _buckets(meter: Histogram, counts: list[int]) -> list[tuple[str, float]]:
    bounds = [*(f"{bound:g}" for bound in meter.bounds), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))
