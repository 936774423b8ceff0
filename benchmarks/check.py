"""How long the check takes: a playbook of 1,000 steps, and hostile text."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

from benchmarks.sizes import scaled
from noetl.checks.checker import check
from noetl.cli.checker import rare_collections
from noetl.playbook.source import parse
from noetl.tool import Tools

# About 200 bytes and three templates per step: a typical long chain.
PLAIN_STEP = """\
- step: {name}
  tool: {{kind: http, url: "{{{{ workload.api_url }}}}/items/{number}", spec: {{timeout: 30}}}}
  set: {{ctx.page_{number}: "{{{{ output.data.page }}}}"}}
  next: {{arcs: [{{step: {after}, when: "{{{{ output.data.id == {number} }}}}"}}, {{step: end}}]}}
"""

# About 640 bytes and seven templates per step, five of them different in each step: retries, inputs, counters.
FULL_STEP = """\
- step: {name}
  input: {{page: "{{{{ ctx.page_{number} | default({number}) }}}}"}}
  tool:
  - name: fetch
    kind: http
    input: {{url: "{{{{ workload.api_url }}}}/items/{number}", params: {{page: "{{{{ input.page }}}}"}}}}
    set: {{step.total: "{{{{ output.data.total | default({number}) }}}}"}}
    spec:
      policy:
        rules:
        - when: "{{{{ output.status == 'error' and output.http.status in [429, 500, {number}] }}}}"
          then: {{do: retry, attempts: 5, backoff: exponential, delay: 1.0}}
        - else: {{then: {{do: continue}}}}
  next:
    arcs:
    - {{step: {after}, when: "{{{{ output.data.id == {number} }}}}", set: {{ctx.page_{number}: "{{{{ output.data.page }}}}"}}}}
    - {{step: end}}
"""


def playbook(steps: int, step: str) -> str:
    """A chain of steps with different templates."""
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: big, path: bench/big}\nworkload: {api_url: http://127.0.0.1}\nworkflow:\n"
    names = ["start", *(f"step_{number}" for number in range(1, steps))]
    body = [
        step.format(name=name, number=number, after=names[number + 1] if number + 1 < steps else "end")
        for number, name in enumerate(names)
    ]
    return head + "".join(body)


def seconds(work: Callable[[], object], times: int = 3) -> float:
    best = float("inf")
    for _ in range(scaled(times, 1)):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def peak_mb(work: Callable[[], object]) -> float:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


def measure() -> list[tuple[str, float, str]]:
    from noetl.net import compile as compiler

    kinds = Tools.installed().kinds()
    rows: list[tuple[str, float, str]] = []
    for name, step in (("", PLAIN_STEP), (", full", FULL_STEP)):
        text = playbook(scaled(1_000, 30), step)

        def cold(text: str = text) -> None:
            compiler.compiled_template.cache_clear()
            with rare_collections():  # as `noetl check` does
                assert check(text, kinds).errors == ()

        rows.append((f"check of 1,000 steps{name} ({len(text) // 1024} KiB)", seconds(cold), "s"))
        rows.append(("… its peak memory", peak_mb(cold), "MiB"))
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    hostile = {
        "100,000 brackets": "[" * 100_000,
        "alias bomb": bomb,
        "self-alias": "&x [*x]",
        "1 MiB of list": "[" + "1," * 500_000,
        "200,000 words": "- [" + "ab12," * 199_998 + "]",
        "66,000 mappings": "- k: abcde\n" * 66_000,
    }
    for name, text in list(hostile.items())[: scaled(len(hostile), 3)]:
        rows.append((f"parse of {name}", seconds(lambda text=text: parse(text)) * 1000, "ms"))  # type: ignore[misc]  # bound by default
        rows.append(("… its peak memory", peak_mb(lambda text=text: parse(text)), "MiB"))  # type: ignore[misc]  # bound by default
    return rows


if __name__ == "__main__":
    for row in measure():
        print(row)
