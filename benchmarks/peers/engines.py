"""The measured engines: their commands, the size of their workloads, and notes on their figures."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.installing import python_of, restate_server

WHOLE = {"W1": 1_000, "W2": 10_000, "W3": 1_000, "W4": 50, "W5": 1, "W6": 100, "rows": 1}
TRIAL = {"W1": 50, "W2": 200, "W3": 20, "W4": 5, "W5": 1, "W6": 5, "rows": 1}


class Engine(NamedTuple):
    """One row of the table."""

    name: str  # of its log and its figures
    title: str
    notes: str  # its storage, its durability, and other differences
    peer: str | None = None  # the name of its virtual environment; None: ours
    workloads: tuple[str, ...] = ("W1", "W2", "W3", "W4", "W5", "W6")
    most: Mapping[str, int] = {}  # larger workloads end with an error or take minutes
    quick: Mapping[str, int] = {}  # sizes when time is short

    def sizes(self, mode: str) -> dict[str, int]:
        """The sizes for `whole`, `quick` or `trial`; NoETL always runs the full size."""
        if self.peer is None:
            return WHOLE
        return TRIAL if mode == "trial" else {**WHOLE, **self.most, **(self.quick if mode == "quick" else {})}

    def command(self, folder: Path) -> list[str]:
        """Raises Missing."""
        python = sys.executable if self.peer is None else str(python_of(self.peer))
        own = [python, "-m", f"benchmarks.peers.{self.peer or self.name}", str(folder)]
        if self.name == "dbos_postgres":
            return [sys.executable, "-m", "benchmarks.peers.with_postgres", str(folder), *own]
        return [*own, str(restate_server())] if self.peer == "restate" else own


FLOOR = Engine("floor", "no engine", "", workloads=("rows", "W4", "W6"))
EMBEDDED = Engine(
    "noetl_embedded",
    "**NoETL, embedded**",
    """\
One process, SQLite with a write-ahead log and `synchronous=FULL`. The result of a step is synced before
the next one starts; reports that arrive together share a commit (1,001 commits in W1, 104 in W2, 232 in
W4, whose log contains every page completely; counted in one run). W2 and W6: 100 slots. W5: `noetl run`
of a file.""",
)
DISTRIBUTED = Engine(
    "noetl_distributed",
    "**NoETL, distributed**",
    """\
`noetl up --workers 2 --slots 64`: PostgreSQL 18 with `fsync=on` and `synchronous_commit=on`, NATS
JetStream with every message synced, one server, two workers, called over HTTP. All processes share the
machine.""",
    workloads=("rows", "W1", "W2", "W3", "W4", "W6"),
)
SERVER = Engine(
    "noetl_server",
    "**NoETL, server with slots**",
    """\
`noetl up --workers 0 --server-slots 128`: the same services with the same durability, and a server that runs
the tasks in its own process, for small installations.""",
    workloads=("W1", "W2", "W3", "W4", "W6"),
)
DBOS_SQLITE = Engine(
    "dbos_sqlite",
    "DBOS, SQLite",
    """\
A library in one process. Each step is a row, committed before the step returns. DBOS keeps SQLite's
defaults, a rollback journal and `synchronous=FULL`, with which a commit takes more than one sync. W2 and
W4: one workflow whose steps run by `asyncio.gather` behind a semaphore. W3: `start_workflow_async`.""",
    "dbos",
    quick={"W2": 2_000, "W6": 20},
)
DBOS_POSTGRES = Engine(
    "dbos_postgres",
    "DBOS, PostgreSQL",
    """\
The same with PostgreSQL, which has the same version and settings as for NoETL, distributed. W5: the
database is running and its tables exist.""",
    "dbos",
    quick={"W2": 2_000, "W6": 20},
)
PREFECT = Engine(
    "prefect",
    "Prefect",
    """\
Its own server on SQLite, `synchronous=NORMAL`, and the tasks in one other process. With the default
settings results stay in memory, and the states of tasks are sent to the server in the background. A step
is therefore **not** durable before the next one starts; pending writes after each workload are awaited but
not timed. W3: 100 at a time, but of 1,000 executions some end because its server answers with status 503.
W6: of 20 executions some end in the same way. W5: the server is running.""",
    "prefect",
    most={"W3": 50, "W6": 10},
    quick={"W2": 1_000},
)
RESTATE = Engine(
    "restate",
    "Restate",
    """\
Its server, with its own log, and the handlers in one hypercorn process. Each `ctx.run` is an entry of the
journal, acknowledged by the server before the next one starts; the server made 1.5 syncs per step in W1
(counted once, with strace). W2: batches of 100 in one handler. W4: one call per endpoint, 10 at once. W5:
server and handlers are started on an empty directory; timed until the answer.""",
    "restate",
)
TEMPORAL = Engine(
    "temporal",
    "Temporal",
    """\
Its development server on a SQLite file, `temporal server start-dev`, which is one process and not the
server for production, and the worker in one other process. Each activity is recorded before the next one
starts. W2: workflows of at most 5,000 items, because a history is limited to 51,200 events. W4: one
workflow per endpoint, 10 at once. W5: server and worker are started on an empty directory; timed until the
answer.""",
    "temporal",
    most={"W6": 25},
    quick={"W2": 1_000, "W6": 20},
)
PEER_ROUNDS = 3  # of the systems that are not ours
PEERS = (DBOS_SQLITE, DBOS_POSTGRES, PREFECT, RESTATE, TEMPORAL)
OURS = (EMBEDDED, SERVER, DISTRIBUTED)
ALL = (FLOOR, *OURS, *PEERS)
