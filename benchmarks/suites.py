"""`noetl test`: 1,000 tests of a playbook with 20 steps. Run it with `python -m benchmarks suites`."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.sizes import scaled
from noetl.testing import run_tests

TESTS, STEPS = scaled(1_000, 20), 20
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bench, path: bench}\nworkflow:\n"
STEP = """\
- step: {name}
  tool: {{kind: http, url: "https://example.org/{place}"}}
  set: {{ctx.n{place}: "{{{{ output.data.n }}}}"}}
  next: {{arcs: [{{step: {after}}}]}}
"""
TEST = """\
- name: test {number}
  workload: {{number: {number}}}
  stubs: [{stubs}]
  expect: {{status: ok, ctx: {{n7: {number}}}, calls: {{s7: 1}}}}
"""


def playbook() -> str:
    names = ["start", *(f"s{place}" for place in range(1, STEPS)), "end"]
    steps = pairwise(names)
    return HEAD + "".join(STEP.format(name=name, place=place, after=after) for place, (name, after) in enumerate(steps))


def suite() -> str:
    names = ["start", *(f"s{place}" for place in range(1, STEPS))]
    stubs = ", ".join(f'{{call: {name}, output: {{n: "{{{{ workload.number }}}}"}}}}' for name in names)
    return "playbook: bench.yaml\ntests:\n" + "".join(
        TEST.format(number=each, stubs=stubs) for each in range(TESTS // 10)
    )


def measure() -> list[tuple[str, float, str]]:
    """Ten files of 100 tests each: a file has at most a megabyte."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench.yaml").write_text(playbook())
        file = Path(folder) / "bench.test.yaml"
        file.write_text(suite())
        began, used = perf_counter(), process_time()
        for _ in range(10):
            assert all(each.passed for each in run_tests(file))
        return [
            ("noetl test: 1,000 tests of 20 steps", perf_counter() - began, "s"),
            ("noetl test: 1,000 tests of 20 steps, processor", process_time() - used, "s"),
        ]
