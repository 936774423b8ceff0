"""`python -m benchmarks [MODULE …]`: the figures of all modules in one table, with their goals.

Each module has a new process: the memory that an earlier one leaves would count as memory of the programs that the
next one starts, and would make garbage collection slow.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

from benchmarks.goals import goal_of, name_of, reached, save
from benchmarks.sizes import SMOKE

SHOW = "import sys; from benchmarks.__main__ import show; show(sys.argv[1])"


def main() -> None:
    here = Path(__file__).parent
    names = sys.argv[1:] or sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    if SMOKE:
        print("smoke run: the sizes are small, and the figures mean nothing")
    print(f"{'what':<60} {'value':>12} {'unit':<8} goal", flush=True)
    for name in names:
        code = subprocess.call([sys.executable, "-c", SHOW, name])
        if code:
            raise SystemExit(code)


def show(name: str) -> None:
    """Measure one module, print its figures, and save them."""
    # The page server and the comparison with other engines measure nothing here.
    measure = getattr(importlib.import_module(f"benchmarks.{name}"), "measure", list)
    rows = []
    for what, value, unit in measure():
        goal = "" if SMOKE else verdict(name_of(what), value)
        print(f"{what:<60} {value:>12.4g} {unit:<8} {goal}".rstrip(), flush=True)
        rows.append((what, value, unit))
    if not SMOKE:
        save(rows)


def verdict(name: str, value: float) -> str:
    """The goal of a row, and whether it was missed."""
    part = reached(name, value)
    return goal_of(name) + ("  MISSED" if part is not None and part < 1 else "")


if __name__ == "__main__":
    main()
