"""All metrics and their meanings: the code writes to them, and the table in the guide is made from them."""

from __future__ import annotations

from typing import Final

from noetl.telemetry.instruments import DURATION_S, SIZES, BoundedLabel, MeterRegistry

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
            "appends that the store refused because another server owns the execution by now",
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
        self.taken = registry.counter(
            "noetl_queue_taken_total", "pointers that workers took from the queue", "pool"
        )
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
            "duration of the requests `begin`, `report`, `beat`, `start`, `command` and `iterations`,"
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
            "noetl_executions_ended_total",
            "ended executions: `ok`, `error` or `cancelled`",
            "playbook",
            "status",
        )
        self.execution_s = registry.histogram(
            "noetl_execution_seconds",
            "duration of an execution, from request to end",
            "status",
            bounds=DURATION_S,
        )
        self.step_s = registry.histogram(
            "noetl_step_seconds",
            "duration of a step run, from scheduling to end",
            "status",
            bounds=DURATION_S,
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
        self.waiting = registry.gauge(
            "noetl_frames_waiting", "due frames that no worker has begun (queue depth)", "pool"
        )
        self.oldest_s = registry.gauge(
            "noetl_frames_oldest_seconds", "age of the oldest pointer that no worker has claimed", "pool"
        )
        self.leased = registry.gauge("noetl_frames_leased", "frames that workers hold under a lease", "pool")
        self.commands = registry.gauge(
            "noetl_commands_waiting", "commands and reports that wait for a commit"
        )
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


TABLE_BEGIN: Final = "<!-- metrics -->"
TABLE_END: Final = "<!-- end of metrics -->"


def metrics_table() -> str:
    """A Markdown table of all metrics, with kind, labels and meaning."""
    rows = [
        f"| `{meter.name}` | {meter.kind} | {' '.join(f'`{label}`' for label in meter.labels) or '–'} "
        f"| {meter.meaning} |"
        for meter in Metrics().registry.meters
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def with_metrics_table(page: str) -> str:
    """The page with the current table between its marks. A test compares it with the guide."""
    head, _, rest = page.partition(TABLE_BEGIN)
    _, _, tail = rest.partition(TABLE_END)
    return f"{head}{TABLE_BEGIN}\n{metrics_table()}\n{TABLE_END}{tail}"
