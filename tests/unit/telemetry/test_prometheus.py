"""The meters as Prometheus reads them, from the registry and over a port of their own."""

from __future__ import annotations

from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from noetl.errors import Rejected
from noetl.telemetry.metrics import Metrics, make_registry, serve_metrics
from tests.ports import free_port
from tests.unit.telemetry.runtimes import rendered, run_whole
from tests.unit.telemetry.test_spans import TWO


def samples(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_every_metric_is_on_the_page_under_its_own_name() -> None:
    metrics = Metrics()
    page = rendered(make_registry(metrics))[0].decode()
    assert [meter.name for meter in metrics.registry.meters if f"# HELP {meter.name} " not in page] == []


def test_names_tell_what_they_count() -> None:
    for meter in Metrics().registry.meters:
        assert meter.name.startswith("noetl_")
        assert meter.name.endswith("_total") == (meter.kind == "counter"), meter.name
        assert meter.meaning, meter.name


def test_an_execution_shows_on_the_page() -> None:
    runtime, _ = run_whole(TWO)
    page, kind = rendered(make_registry(runtime.metrics))
    found = samples(page)
    assert kind.startswith("text/plain")
    assert found["noetl_executions_ended_total", (("playbook", "t"), ("status", "ok"))] == 1
    assert found["noetl_step_seconds_count", (("status", "ok"),)] == 2
    assert found["noetl_step_seconds_bucket", (("le", "+Inf"), ("status", "ok"))] == 2
    assert found["noetl_executions_live", (("status", "ok"),)] == 1
    assert found["noetl_stale_writes_refused_total", ()] == 0
    assert found["process_resident_memory_bytes", ()] > 1_000_000
    assert found["process_open_fds", ()] > 2


def test_a_bucket_holds_all_that_is_below_its_bound() -> None:
    metrics = Metrics()
    for value in (0.5, 3.0, 700.0):
        metrics.store.batch.observe(value)
    found = samples(rendered(make_registry(metrics))[0])
    bounds = [found["noetl_store_append_facts_bucket", (("le", le),)] for le in ("1", "5", "500", "1000")]
    assert bounds == [1, 2, 2, 3]
    assert found["noetl_store_append_facts_sum", ()] == 703.5


def test_a_label_that_an_author_chose_can_not_break_the_page() -> None:
    metrics = Metrics()
    path = 'a"} 1\nnoetl_fake 7\n#\\'
    metrics.facts.started.add(metrics.playbook(path))
    found = samples(rendered(make_registry(metrics))[0])
    assert found["noetl_executions_started_total", (("playbook", path),)] == 1
    assert not [name for name, _ in found if name == "noetl_fake"]


def test_openmetrics_is_spoken_to_whom_asks_for_it() -> None:
    page, kind = rendered(make_registry(Metrics()), "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert page.endswith(b"# EOF\n")


def test_a_worker_shows_its_metrics_on_a_port_of_its_own() -> None:
    metrics = Metrics()
    metrics.process.held.read_from(lambda: 3)
    port = free_port()
    close = serve_metrics(make_registry(metrics), f"127.0.0.1:{port}")
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert samples(answer.read())["noetl_frames_held", ()] == 3
        with pytest.raises(Rejected, match="cannot be served"):
            serve_metrics(make_registry(metrics), f"127.0.0.1:{port}")
    finally:
        close()


@pytest.mark.parametrize("address", ["", "9464", ":9464", "host:", "host:99999", "host:http"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(Rejected, match="host:port"):
        serve_metrics(make_registry(Metrics()), address)
