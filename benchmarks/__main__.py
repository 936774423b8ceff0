"""`python -m benchmarks [MODULE …]`: the figures of all modules in one table, with their goals.

Each module has a new process: the memory that an earlier one leaves would count as memory of the programs that the
next one starts, and would make garbage collection slow.
"""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from benchmarks.goals import goal_of, name_of, reached, save
from benchmarks.sizes import SMOKE

SHOW = "import sys; from benchmarks.__main__ import show; show(sys.argv[1])"
SMOKE_S: Final = 180  # limit of a smoke run of all modules
STOP_S: Final = 30  # in which a module stops the processes that it started


def main() -> None:
    here = Path(__file__).parent
    names = sys.argv[1:] or sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    if SMOKE:
        print("smoke run: the sizes are small, and the figures mean nothing")
    print(f"{'what':<60} {'value':>12} {'unit':<8} goal", flush=True)
    seconds = run(names, SMOKE_S if SMOKE else None)
    if SMOKE:
        print(f"the smoke run took {sum(seconds.values()):.0f} s of at most {SMOKE_S} s: {slowest_first(seconds)}")


def run(names: Sequence[str], limit_s: float | None) -> dict[str, float]:
    """The seconds of each module. Exits when a module fails, or when all together exceed the limit."""
    seconds: dict[str, float] = {}
    for name in names:
        begun = time.monotonic()
        left_s = None if limit_s is None else max(0, limit_s - sum(seconds.values()))
        code = _exit_code(name, left_s)
        seconds[name] = time.monotonic() - begun
        if code is None:
            raise SystemExit(f"the benchmarks exceed {limit_s:g} s in {name}: {slowest_first(seconds)}")
        if code:
            raise SystemExit(code)
    return seconds


def slowest_first(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {spent:.1f} s" for name, spent in sorted(seconds.items(), key=lambda each: -each[1]))


def _exit_code(name: str, limit_s: float | None) -> int | None:
    """None: the module did not end in time."""
    with subprocess.Popen([sys.executable, "-c", SHOW, name]) as process:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            process.kill()
            return None


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
