"""The helper that measures processes measures only them."""

from __future__ import annotations

import sys

from tests.measured_process import run_measured


def test_memory_of_the_process_that_measures_does_not_count() -> None:
    own = bytearray(300 << 20)
    code = "import sys; data = bytearray(50 << 20); print('done'); sys.exit(3)"
    found = run_measured([sys.executable, "-c", code])
    assert (found.code, found.stdout) == (3, "done\n")
    assert 50 < found.peak_mib < 150 < len(own) >> 20
    assert found.cpu_s > 0
