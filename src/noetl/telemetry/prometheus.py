"""The meters as Prometheus reads them: a registry of our own, filled when it is asked.

The library is imported here only, by processes that show metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

import noetl
from noetl.errors import Rejected
from noetl.telemetry.instruments import Count, Gauge, Meter, Timing, labelled
from noetl.telemetry.metrics import Measures

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric


def make_registry(measures: Measures) -> CollectorRegistry:
    """With the memory, the processor time and the open files of the process."""
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    registry.register(_Shown(measures))
    ProcessCollector(registry=registry)
    return registry


def rendered(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """A page, and its content type."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def serve_metrics(registry: CollectorRegistry, address: str) -> Callable[[], None]:
    """For a worker, which has no other door: a page of its own at host:port. What is returned closes it.

    Raises Rejected when the address is none, or taken.
    """
    from prometheus_client import start_http_server

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise Rejected(
            "bad-setting", f'metrics are shown at host:port, as in 127.0.0.1:9464, not "{address}"'
        )
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        words = f"metrics can not be shown at {address}: {error.strerror}"
        raise Rejected("bad-setting", words) from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close


class _Shown:
    """Keeps the contract of a collector."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import InfoMetricFamily

        yield InfoMetricFamily("noetl_build", "the version that runs", {"version": noetl.__version__})
        for done in self._measures.book.before:
            done()
        for meter in self._measures.book.meters:
            yield _family(meter)


def _family(meter: Meter) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if isinstance(meter, Count):
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


def _buckets(meter: Timing, counts: list[int]) -> list[tuple[str, float]]:
    bounds = [*(f"{bound:g}" for bound in meter.bounds), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))
