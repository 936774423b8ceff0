"""Goals of NoETL's own figures, and the last figure of each row, for the page of the docs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from noetl.clock import SystemClock
from noetl.defaults import LEASE_S

OWN = Path(__file__).parents[1] / ".bench" / "own.json"

# By the name of the row: figures that an issue or the documentation promises.
GOALS: dict[str, float] = {
    "noetl --version": 150,
    "noetl check examples/hello.yaml": 300,
    "check of 1,000 steps": 0.6,
    "check of 1,000 steps, full": 0.6,
    "parse of 100,000 brackets": 200,
    "parse of alias bomb": 200,
    "parse of self-alias": 200,
    "template: compile the guard": 300,
    "template: guard holds": 2,
    "engine: log of one step": 1_200,
    "engine: log of one iteration": 600,
    "store: one chain, five facts a commit": 250,
    "embedded: W5 cold start": 0.2,
    "embedded: W5 peak memory": 60,
    "python: a warm call": 500,
    "pipeline: a call of noop": 15,
    "server: 500 followers of one execution, at most": 100,
    "pipeline: a call of http with three rules": 15,
    "webhooks: 200 a second, p99": 100,
    "noetl test: 1,000 tests of 20 steps": 10,
    "editor: diagnostics after a keystroke in a template": 200,
    "editor: diagnostics after a keystroke in the name of a step": 200,
    "editor: diagnostics after a keystroke in a new step": 200,
    "editor: diagnostics after a keystroke in the metadata": 200,
    "editor: diagnostics after a keystroke in the workload": 200,
    "editor: diagnostics after a keystroke in a key of the workload": 200,
    "editor: diagnostics after a keystroke in the keychain": 200,
    "editor: diagnostics after a keystroke in the executor": 200,
    "editor: completion of a step": 50,
    "editor: completion of a path in ctx": 50,
    "editor: completion of a key": 50,
    "editor: peak memory of noetl lsp": 143,
    **{
        f"{where}: {name}": 0.5
        for where, resumed in (("large", "a waiting one"), ("large on PostgreSQL", "a paused one"))
        for name in (
            "list",
            "list of errors",
            "list of a pattern that matches nothing",
            "show of any execution",
            "show of the last one",
            f"resume of {resumed}",
        )
    },
    **{
        f"{where}: a server with 100,000 {what}, {name}": goal
        for where in ("large", "large on PostgreSQL")
        for what in ("open executions", "open executions that wait for timers")
        for name, goal in (("ready", 5), ("memory", 500))
    },
    "run api: overhead over a bare route, p50": 10,
    "neighbours: beside tokens without end, p99 against alone": 2,
    "neighbours: beside 100 MB of results over HTTP, p99 against alone": 2,
    "neighbours: beside 100 MB of results of python, p99 against alone": 2,
    "neighbours: beside 10,000 failing retries, p99 against alone": 2,
    "printed: executions are slower by": 10,
    "long loop: 1,000,000 items, peak memory": 150,
    "long loop: 1,000,000 items, show": 0.5,
    "scale-out: longest of them beyond the usual time": LEASE_S,
    **{
        f"scale-out: {servers} servers, {workers} workers, spread of the load over servers": 20
        for servers in (2, 4)
        for workers in (2, 4, 8)
    },
}
AT_LEAST: dict[str, float] = {
    "engine: decide a chain of 1,000 steps": 50_000,
    "engine: decide a loop of 10,000, 100 at once": 50_000,
    "engine: fold a chain of 1,000 steps": 400_000,
    "engine: fold a loop of 10,000, 100 at once": 400_000,
    "store: 100 chains at once": 50_000,
    "store: read and decode a long log": 400_000,
    "postgres: COPY in, NDJSON, 1,000,000 rows": 100_000,
    "postgres: COPY in, CSV, 1,000,000 rows": 100_000,
    "postgres: COPY out, NDJSON, 1,000,000 rows": 100_000,
    "embedded: W1 chain of 1,000 steps": 3_500,
    "embedded: W2 loop of 10,000, 100 in flight": 22_000,
    "embedded: W3 1,000 executions of 3 steps": 2_800,
    "embedded: W4 50 × 20 pages, 10 at once": 3_000,
    "long loop: 1,000,000 items, rate against 10,000 items": 0.9,
    "postgres log: one chain, five facts a commit": 1_500,
    "postgres log: 64 chains at once": 15_000,
    "distributed: W1 chain of 1,000 steps": 1_100,
    "distributed: W2 loop of 10,000, 100 in flight": 10_000,
    "distributed: W3 1,000 executions of 3 steps": 900,
    "distributed: W4 50 × 20 pages, 10 at once": 1_600,
    "server with slots: W1 chain of 1,000 steps": 1_100,
    "server with slots: W2 loop of 10,000, 100 in flight": 10_000,
    "server with slots: W3 1,000 executions of 3 steps": 900,
    "server with slots: W4 50 × 20 pages, 10 at once": 1_600,
}


class OwnFigure(NamedTuple):
    """The last measured value of a row."""

    value: float
    unit: str
    date: str


def name_of(what: str) -> str:
    """Text in parentheses is not part of the name of a row."""
    return what.partition(" (")[0]


def goal_of(name: str) -> str:
    """Empty: it has none."""
    if name in AT_LEAST:
        goal = AT_LEAST[name]
        return f"≥ {goal:,.0f}" if goal >= 10 else f"≥ {goal:g}"
    return f"≤ {GOALS[name]:g}" if name in GOALS else ""


def reached(name: str, value: float) -> float | None:
    """The part of the goal that is reached; 1 or more: all of it. None: there is no goal."""
    if name in AT_LEAST:
        return value / AT_LEAST[name]
    return GOALS[name] / max(value, 1e-9) if name in GOALS else None


def save(rows: Iterable[tuple[str, float, str]]) -> None:
    """Replace the figures of these rows."""
    date = SystemClock().now().date().isoformat()
    figures = {name: figure._asdict() for name, figure in load().items()}
    figures |= {name_of(what): OwnFigure(value, unit, date)._asdict() for what, value, unit in rows}
    OWN.parent.mkdir(exist_ok=True)
    OWN.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")


def load() -> Mapping[str, OwnFigure]:
    """By the name of the row."""
    if not OWN.exists():
        return {}
    return {name: OwnFigure(**figure) for name, figure in json.loads(OWN.read_text("utf-8")).items()}
