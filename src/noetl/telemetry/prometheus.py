"""Exports the meters to Prometheus: a registry of our own, filled at each scrape.

Only this module imports the library, in processes that export metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

import noetl
from noetl.errors import Rejected
from noetl.telemetry.metrics import Counter, Gauge, Histogram, Meter, Metrics, labelled

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


def make_registry(metrics: Metrics) -> CollectorRegistry:
    """A registry that includes the memory, the CPU time and the open files of the process."""
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    registry.register(_Collector(metrics))
    ProcessCollector(registry=registry)
    return registry


def rendered(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """The rendered page and its content type."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


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
