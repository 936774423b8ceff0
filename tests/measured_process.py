"""The time and the peak memory of a process.

Linux counts the peak of the process that starts another one as memory of that one, too. So a small process is between
them. This module imports only the standard library, because benchmarks of other engines use it as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_BETWEEN = """
import json, resource, subprocess, sys, time
begun = time.perf_counter()
code = subprocess.call(sys.argv[2:])
seconds = time.perf_counter() - begun
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump([code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], file)
"""


class Measured(NamedTuple):
    """A process that has ended, and the processes that it waited for."""

    code: int
    seconds: float
    cpu_s: float
    peak_mib: float  # of the largest of them
    stdout: str


def run_measured(
    command: Sequence[str | Path],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stderr: int | None = None,
) -> Measured:
    """Run the command to its end. `stderr`: as for subprocess; None: that of this process."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as figures:
        done = subprocess.run(
            [sys.executable, "-c", _BETWEEN, figures.name, *command],
            check=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
        code, seconds, cpu_s, peak_mib = json.load(figures)
    return Measured(code, seconds, cpu_s, peak_mib, done.stdout)
