"""Every metric of the house, and what it means: the code writes to this table, the guide is made from it."""

from __future__ import annotations

from typing import Final

from noetl.telemetry.instruments import DURATION_S, SIZES, Book, Bounded

PLAYBOOKS_MAX: Final = 100  # told apart by their paths
POOLS_MAX: Final = 50
KINDS_MAX: Final = 100  # of tools
WHYS_MAX: Final = 100  # reasons of refusals
ROUTES_MAX: Final = 200


class StoreMeters:
    """What the log costs, and what it refuses."""

    def __init__(self, book: Book) -> None:
        self.append_s = book.timing(
            "noetl_store_append_seconds", "time of one call to the log that commits facts"
        )
        self.appends = book.count(
            "noetl_store_appends_total",
            "appends by what became of them: `ok`, `conflict` (another writer was first),"
            " `fenced` (no longer ours), `unavailable` (it is not known)",
            "result",
        )
        self.stale = book.count(
            "noetl_stale_writes_refused_total",
            "appends of this server that the log refused, since the execution belongs to another by now",
        )
        self.batch = book.timing("noetl_store_append_facts", "facts that share one append", bounds=SIZES)
        self.read_s = book.timing(
            "noetl_store_read_seconds",
            "time of other calls: `read`, `status`, `snapshot`, `keep`",
            "operation",
        )
        self.away = book.count(
            "noetl_store_unavailable_total", "calls that the log did not answer", "operation"
        )


class QueueMeters:
    """Pointers on their way to workers."""

    def __init__(self, book: Book) -> None:
        self.put = book.count("noetl_queue_put_total", "pointers put into the queue", "pool")
        self.taken = book.count("noetl_queue_taken_total", "pointers taken out of it", "pool")
        self.done = book.count("noetl_queue_done_total", "pointers acknowledged", "pool")
        self.call_s = book.timing(
            "noetl_queue_seconds", "time of a call to the queue: `put`, `done`", "operation"
        )
        self.away = book.count(
            "noetl_queue_unavailable_total", "calls that the queue did not answer", "operation"
        )
        self.wait_s = book.timing(
            "noetl_queue_wait_seconds",
            "from a pointer that was put to the worker that begins its frame",
            "pool",
            bounds=DURATION_S,
        )


class LinkMeters:
    """What workers and callers ask of the owner of an execution."""

    def __init__(self, book: Book) -> None:
        self.call_s = book.timing(
            "noetl_link_seconds",
            "time until `begin`, `report`, `beat`, `start`, `command` or `iterations` is answered,"
            " commit included",
            "operation",
        )
        self.refused = book.count(
            "noetl_link_refused_total",
            "what was not granted, by reason: `fenced` and `elsewhere` are late workers, `nothing` a frame"
            " that is over or another's, `unavailable` no answer; others are codes of refusals",
            "operation",
            "why",
        )
        self.handed_on = book.count(
            "noetl_frames_handed_on_total", "frames given with the answer to a report, past the queue"
        )
        self.stopped = book.count(
            "noetl_frames_stopped_total", "frames that workers were told to stop: cancelled, lost, timed out"
        )


class FactMeters:
    """What happened, from committed facts; each is counted by the server that committed it."""

    def __init__(self, book: Book) -> None:
        self.facts = book.count("noetl_facts_total", "facts on record, by kind", "fact")
        self.started = book.count("noetl_executions_started_total", "executions asked for", "playbook")
        self.ended = book.count(
            "noetl_executions_ended_total",
            "executions that ended: `ok`, `error` or `cancelled`",
            "playbook",
            "status",
        )
        self.execution_s = book.timing(
            "noetl_execution_seconds", "from request to end", "status", bounds=DURATION_S
        )
        self.step_s = book.timing(
            "noetl_step_seconds", "of a run, from scheduled to its end", "status", bounds=DURATION_S
        )
        self.step_wait_s = book.timing(
            "noetl_step_wait_seconds",
            "from scheduled to the first call of a step without a loop: queue and hand-over",
            bounds=DURATION_S,
        )
        self.task_s = book.timing(
            "noetl_task_seconds",
            "of one call, by the tool's kind and `ok`, `error` or `skipped`",
            "kind",
            "status",
            bounds=DURATION_S,
        )
        self.retries = book.count("noetl_task_retries_total", "calls that are tried again", "kind")
        self.iterations = book.count("noetl_iterations_total", "iterations that ended", "status")


class HouseMeters:
    """What there is just now, and what the server does beside executions."""

    def __init__(self, book: Book) -> None:
        self.lives = book.gauge(
            "noetl_executions_live", "executions in this server's memory, by status", "status"
        )
        self.waiting = book.gauge(
            "noetl_frames_waiting", "frames that are due and that no worker has begun (queue depth)", "pool"
        )
        self.oldest_s = book.gauge(
            "noetl_frames_oldest_seconds", "age of the oldest pointer that nobody has followed", "pool"
        )
        self.leased = book.gauge("noetl_frames_leased", "frames that workers have under a lease", "pool")
        self.commands = book.gauge("noetl_commands_waiting", "commands and reports that wait for a commit")
        self.partitions = book.gauge("noetl_partitions_owned", "partitions that are this server's")
        self.timers = book.gauge("noetl_timers", "instants that something waits for")
        self.followers = book.gauge("noetl_followers", "open live streams")
        self.workers = book.gauge("noetl_workers", "workers that were heard lately", "pool")
        self.slots = book.gauge("noetl_worker_slots", "their slots", "pool")
        self.busy = book.gauge("noetl_worker_slots_busy", "slots with a frame", "pool")
        self.held = book.gauge("noetl_frames_held", "frames in this worker's hands")
        self.sweep_s = book.timing(
            "noetl_sweep_seconds", "of a sweep over all open executions", bounds=DURATION_S
        )
        self.lost = book.count(
            "noetl_frames_lost_total", "frames whose worker or pointer was lost, found by sweeps"
        )
        self.lag_s = book.timing(
            "noetl_loop_lag_seconds", "how late the event loop woke: above 0.1 the process has too much to do"
        )
        self.request_s = book.timing(
            "noetl_api_request_seconds",
            "API requests; of a live stream the time to its first byte",
            "method",
            "route",
            "status",
        )
        self.spans = book.count(
            "noetl_spans_total", "spans by what became of them: `sent`, `dropped`", "result"
        )


class Measures:
    """One for each process."""

    def __init__(self) -> None:
        self.book = Book()
        self.store = StoreMeters(self.book)
        self.queue = QueueMeters(self.book)
        self.link = LinkMeters(self.book)
        self.facts = FactMeters(self.book)
        self.house = HouseMeters(self.book)
        self.playbook = Bounded(PLAYBOOKS_MAX)
        self.pool = Bounded(POOLS_MAX)
        self.kind = Bounded(KINDS_MAX)
        self.why = Bounded(WHYS_MAX)
        self.route = Bounded(ROUTES_MAX)
