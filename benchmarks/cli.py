"""The durations of frequent commands, including the start and the end of the process.

The modules are compiled, as after the first call of an installation.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.sizes import scaled

ROOT = Path(__file__).parents[1]
NOETL = Path(sys.executable).with_name("noetl")
TIMES = scaled(10, 1)
CALLS = {
    "noetl --version": ["--version"],
    "noetl check examples/hello.yaml": ["check", "examples/hello.yaml"],
    "noetl check --help": ["check", "--help"],
    "noetl explain examples/pagination.yaml": ["explain", "examples/pagination.yaml"],
    "noetl explain examples/saga.yaml --graph svg": ["explain", "examples/saga.yaml", "--graph", "svg"],
}


def milliseconds(arguments: list[str]) -> float:
    """The median of several calls, after one that fills the caches."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    taken = []
    for _ in range(TIMES + 1):
        begun = time.perf_counter()
        subprocess.run([NOETL, *arguments], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
        taken.append((time.perf_counter() - begun) * 1_000)
    return statistics.median(taken[1:])


def measure() -> list[tuple[str, float, str]]:
    return [(name, milliseconds(arguments), "ms") for name, arguments in CALLS.items()]
