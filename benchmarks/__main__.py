"""`python -m benchmarks [MODULE …]`: what every module here measures, in one table, the goal beside it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

# By the name of the row; those that an issue or the docs promise.
GOALS: dict[str, float] = {
    "noetl --version": 150,
    "noetl check examples/hello.yaml": 300,
    "check of 1,000 steps": 1,
    "parse of 100,000 brackets": 200,
    "parse of alias bomb": 200,
    "parse of self-alias": 200,
    "template: compile the guard": 300,
    "template: guard holds": 2,
}


def main() -> None:
    here = Path(__file__).parent
    names = sys.argv[1:] or sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    print(f"{'what':<60} {'value':>12} {'unit':<8} goal")
    for name in names:
        for what, value, unit in importlib.import_module(f"benchmarks.{name}").measure():
            goal = GOALS.get(what)
            verdict = "" if goal is None else f"≤ {goal:g}" + ("" if value <= goal else "  MISSED")
            print(f"{what:<60} {value:>12.4g} {unit:<8} {verdict}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
