"""`python -m benchmarks [MODULE …]`: the figures of all modules in one table, with their goals."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.sizes import SMOKE

# By the name of the row: figures that an issue or the documentation promises.
GOALS: dict[str, float] = {
    "noetl --version": 150,
    "noetl check examples/hello.yaml": 300,
    "check of 1,000 steps": 1,
    "parse of 100,000 brackets": 200,
    "parse of alias bomb": 200,
    "parse of self-alias": 200,
    "template: compile the guard": 300,
    "template: guard holds": 2,
    "engine: log of one step": 1_200,
    "engine: log of one iteration": 600,
    "store: one chain, five facts a commit": 250,
    "embedded: W5 cold start": 0.35,
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
    "large: list": 0.5,
    "large: show of any execution": 0.5,
    "large: show of the last one": 0.5,
    "large: resume of a waiting one": 0.5,
    "large: a server with 100,000 open executions, ready": 5,
    "large: a server with 100,000 open executions, memory": 500,
    "run api: overhead over a bare route, p50": 10,
    "neighbours: beside tokens without end, p99 against alone": 2,
    "neighbours: beside 100 MB of results over HTTP, p99 against alone": 2,
    "neighbours: beside 100 MB of results of python, p99 against alone": 2,
    "neighbours: beside 10,000 failing retries, p99 against alone": 2,
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
    "embedded: W1 chain of 1,000 steps": 2_000,
    "embedded: W2 loop of 10,000, 100 in flight": 8_000,
    "embedded: W3 1,000 executions of 3 steps": 800,
    "embedded: W4 50 × 20 pages, 10 at once": 1_200,
    "postgres log: one chain, five facts a commit": 1_500,
    "postgres log: 64 chains at once": 15_000,
    "distributed: W1 chain of 1,000 steps": 300,
    "distributed: W2 loop of 10,000, 100 in flight": 1_500,
    "distributed: W3 1,000 executions of 3 steps": 150,
}


def main() -> None:
    here = Path(__file__).parent
    names = sys.argv[1:] or sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    if SMOKE:
        print("smoke run: the sizes are small, and the figures mean nothing")
    print(f"{'what':<60} {'value':>12} {'unit':<8} goal")
    for name in names:
        # The page server and the comparison with other engines measure nothing here.
        measure = getattr(importlib.import_module(f"benchmarks.{name}"), "measure", list)
        for what, value, unit in measure():
            goal = "" if SMOKE else verdict(what, value)
            print(f"{what:<60} {value:>12.4g} {unit:<8} {goal}".rstrip(), flush=True)


def verdict(what: str, value: float) -> str:
    """The goal of a row, and whether it was missed; text in parentheses is not part of its name."""
    name = what.partition(" (")[0]
    if name in AT_LEAST:
        return f"≥ {AT_LEAST[name]:,.0f}" + ("" if value >= AT_LEAST[name] else "  MISSED")
    if name in GOALS:
        return f"≤ {GOALS[name]:g}" + ("" if value <= GOALS[name] else "  MISSED")
    return ""


if __name__ == "__main__":
    main()
