"""The cost of one call without its tool: select the move, take the output, and advance the frame.

Run it with `python -m benchmarks pipeline`; each row has a name, a value and its unit.
"""

from __future__ import annotations

from datetime import UTC, datetime
from timeit import repeat

from benchmarks.sizes import scaled
from noetl.checks.checker import check
from noetl.engine.apply import advance
from noetl.engine.moves import FramePlace, RunTask, Work
from noetl.engine.pipeline import next_move, take
from noetl.engine.state import Frame
from noetl.output import Failure, Output
from noetl.tool import Tools

HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bench, path: bench}
workflow:
- step: start
"""
NOOP = "  tool: {kind: noop}\n"
RULES = """\
  tool:
    kind: http
    url: "{{ input.base }}/items"
    spec:
      policy:
        rules:
        - when: "{{ output.status == 'error' and output.http.status in [429, 500, 502, 503, 504] }}"
          then: {do: retry, attempts: 5, backoff: exponential, delay: 1}
        - when: "{{ output.status == 'error' }}"
          then: {do: fail}
        - else: {then: {do: continue}}
"""
PAGES = """\
  loop: {in: [1], iterator: item}
  input: {base: "https://example.org"}
  tool:
    kind: http
    url: "{{ input.base }}/items"
    params: {page: "{{ iter.page | default(1) }}", size: 100}
    set: {iter.rows: "{{ (iter.rows | default(0)) + (output.data.items | length) }}"}
    spec:
      policy:
        rules:
        - when: "{{ output.status == 'error' and output.http.status in [429, 500, 502, 503, 504] }}"
          then: {do: retry, attempts: 5, backoff: exponential, delay: 1}
        - when: "{{ output.status == 'error' }}"
          then: {do: fail}
        - when: "{{ output.data.more }}"
          then: {do: jump, to: start_task, set: {iter.page: "{{ (iter.page | default(1)) + 1 }}"}}
        - else: {then: {do: continue}}
"""
AT = datetime(2026, 1, 1, tzinfo=UTC)
CALLS = scaled(5_000, 200)


def work(body: str) -> Work:
    kinds = Tools.installed().kinds()
    checked = check(HEAD + body, kinds, "bench")
    assert checked.program is not None, checked.errors
    assert not checked.errors, checked.errors
    program = checked.program._replace(digest="digest")
    place = FramePlace("0199b3c2", {"n": 1}, {"base": "https://example.org"}, {"index": 17, "item": 1})
    return Work(program.steps["start"].pipeline, Frame(id="start#1[17]"), place)


def one_call(body: str, output: Output) -> float:
    """Microseconds for one call in a new frame."""
    some = work(body)

    def run() -> None:
        frame = Frame(id="start#1[17]", ctx={"n": 1})
        ready = Work(some.pipeline, frame, some.place)
        move = next_move(ready, AT)
        assert isinstance(move, RunTask)
        advance(frame, take(ready, move, output, AT))

    return min(repeat(run, number=CALLS, repeat=5)) / CALLS * 1e6


def measure() -> list[tuple[str, float, str]]:
    page = Output(data={"items": [{"id": n} for n in range(10)], "more": True}, own={"http": {"status": 200}})
    away = Failure(kind="http", message="503 from the server")
    gone = Output(status="error", error=away, own={"http": {"status": 503}})
    return [
        ("pipeline: a call of noop", one_call(NOOP, Output()), "µs"),
        ("pipeline: a call of http with three rules", one_call(RULES, page), "µs"),
        ("pipeline: a call of http with three rules, retried", one_call(RULES, gone), "µs"),
        ("pipeline: a page of http, set and jump with set", one_call(PAGES, page), "µs"),
    ]


if __name__ == "__main__":
    for name, value, unit in measure():
        print(f"{name:55} {value:10.2f} {unit}")
