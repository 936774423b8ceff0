"""A playbook and a test file in a folder, for the tests of `noetl test`."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from noetl.testing import run_tests
from noetl.views.test_results import CaseResult

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: orders, path: shop/orders}\n"
PAGES = """
workload: {day: ""}
workflow:
- step: start
  next: {arcs: [{step: fetch}]}
- step: fetch
  tool:
  - name: get_page
    kind: http
    url: "https://shop.invalid/{{ workload.day }}"
    params: {page: "{{ step.page | default(1) }}"}
    set: {step.items: "{{ step.items | default([]) + output.data.items }}"}
    spec:
      policy:
        rules:
        - when: "{{ output.status == 'error' and output.error.retryable }}"
          then: {do: retry, attempts: 4, delay: 60, backoff: exponential}
        - when: "{{ output.status == 'error' }}"
          then: {do: fail}
        - when: "{{ output.data.next }}"
          then: {do: jump, to: get_page, set: {step.page: "{{ output.data.next }}"}}
        - else: {then: {do: break}}
  set: {ctx.total: "{{ step.items | length }}"}
  next:
    arcs:
    - step: store
    - step: alarm
      when: "{{ event.name == 'step.failed' }}"
- step: store
  tool: {kind: shell, input: {sh: "echo {{ ctx.total }}"}}
- step: alarm
  tool: {kind: noop, input: {alarm: true}}
"""


def write_suite(folder: Path, tests: str, playbook: str = PAGES) -> Path:
    (folder / "orders.yaml").write_text(HEAD + dedent(playbook))
    file = folder / "orders.test.yaml"
    file.write_text("playbook: orders.yaml\ntests:\n" + indent(dedent(tests).strip("\n"), "  ") + "\n")
    return file


def results(folder: Path, tests: str, playbook: str = PAGES) -> list[CaseResult]:
    return run_tests(write_suite(folder, tests, playbook))


def failures(folder: Path, tests: str, playbook: str = PAGES) -> list[str]:
    """What the tests do not meet, in their order."""
    return [str(each) for result in results(folder, tests, playbook) for each in result.mismatches]
