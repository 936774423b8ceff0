"""`noetl explain` without a process."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.playbooks import HEAD
from tests.unit.cli.invoke import run_explain

PLAYBOOK = HEAD.replace("path: t}", "path: t, version: '1', description: Asks twice}") + (
    """\
keychain: [{name: api, kind: bearer, token: {env: T}}]
workload: {url: "https://x", many: [1, 2]}
workflow:
- step: start
  desc: Forks
  next: {spec: {mode: inclusive}, arcs: [{step: ask}, {step: meet, when: "{{ workload.many }}"}]}
- step: ask
  loop: {in: "{{ workload.many }}", iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool:
  - name: get
    kind: http
    auth: api
    url: "{{ workload.url }}/{{ iter.n }}"
    spec:
      timeout: 5
      policy:
        rules:
        - when: "{{ output.status == 'error' and output.error.retryable }}"
          then: {do: retry, attempts: 3, backoff: exponential, delay: 2}
        - {when: "{{ output.status == 'error' }}", then: {do: fail}}
        - else: {then: {do: continue}}
  - {name: keep, kind: noop, input: {got: "{{ get.data }}"}, set: {iter.kept: true}}
  set: {ctx.failed: "{{ output.meta.failed }}"}
  next:
    arcs:
    - {step: meet}
    - {step: ask, when: "{{ event.name == 'step.failed' }}", set: {ctx.again: true}}
- step: meet
  spec: {policy: {admit: {join: all}}}
  tool: {kind: noop}
"""
)
TOLD = """\
t  t  1
Asks twice

Inputs
  url   text  "https://x"
  many  list  [1, 2]

Credentials
  api  bearer

Steps
● start  Forks
├─ reads  workload.many
├─ next   every arc whose guard is true (fork)
├→ ask
└→ meet  when workload.many

○ ask
├─ loop   for each n in workload.many, parallel, 2 at a time
├─ 1 get  http  GET {{ workload.url }}/{{ iter.n }}  auth api
│  ├─ retry (3 calls in all, exponential from 2 s) when output.status == 'error' and
│  │    output.error.retryable
│  ├─ fail when output.status == 'error'
│  └─ else continue
├─ 2 keep  noop
│  ├─ input  got = get.data
│  └─ set    iter.kept
├─ set    ctx.failed
├─ reads  workload.many, workload.url
├─ writes ctx.again, ctx.failed
├─ next   the first arc whose guard is true
├→ meet
└→ ask  on failure  when event.name == 'step.failed'  sets ctx.again  ↺ leads back

○ meet
├─ join   fires once, with all waiting tokens, when no other token can still reach it
├─ meet_task  noop
└─ the token ends here
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("t.yaml")
    path.write_text(PLAYBOOK)
    return path


def test_a_playbook_is_told_as_a_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain("t.yaml", None, None, None, "canonical") == 0
    assert capsys.readouterr() == (TOLD, "")


def test_it_can_be_written_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain("t.yaml", None, None, "out.txt", "canonical") == 0
    assert (Path("out.txt").read_text(), capsys.readouterr()) == (TOLD, ("", ""))


def test_no_line_is_wider_than_100_columns() -> None:
    run_explain("t.yaml", None, None, "out.txt", "canonical")
    assert max(map(len, Path("out.txt").read_text().splitlines())) <= 100


def test_a_task_is_told_with_its_effective_spec_and_where_each_value_comes_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """D60."""
    assert run_explain("t.yaml", None, "ask.get", None, "canonical") == 0
    assert capsys.readouterr().out == (
        """\
ask.get  http

Spec
  key        value  from
  redirects  10     kind defaults
  timeout    5      task.spec
  verify     true   kind defaults

Fields
  url  {{ workload.url }}/{{ iter.n }}

Rules
  retry (3 calls in all, exponential from 2 s) when output.status == 'error' and
    output.error.retryable
  fail when output.status == 'error'
  else continue

Reads
  iter.n, output.error.retryable, output.status, workload.url
"""
    )


def test_a_task_that_is_not_there_is_answered_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain("t.yaml", None, "ask.got", None, "canonical") == 2
    assert re.search('"ask" has no task "got"', capsys.readouterr().err)


def test_graph_and_task_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explain("t.yaml", "svg", "ask.get", None, "canonical") == 2
    assert re.search("exclude each other", capsys.readouterr().err)


def test_a_drawing_is_written_in_each_format() -> None:
    assert run_explain("t.yaml", "mermaid", None, "t.mmd", "canonical") == 0
    assert run_explain("t.yaml", "dot", None, "t.dot", "canonical") == 0
    assert run_explain("t.yaml", "svg", None, "t.svg", "canonical") == 0
    assert Path("t.mmd").read_text().splitlines()[3] == "flowchart TD"
    assert Path("t.dot").read_text().startswith('digraph "t" {')
    assert ElementTree.parse("t.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_playbook_with_errors_is_told_as_far_as_it_can_be_read_and_that_is_said(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(HEAD + "workflow:\n- {step: start, next: {arcs: [{step: nowhere}]}, nxt: 1}\n")
    assert run_explain("t.yaml", None, None, None, "canonical") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "└→ nowhere  no such step"
    assert err == "t.yaml: 2 errors: the explanation is incomplete; see noetl check\n"


def test_what_can_not_be_read_at_all_is_shown_as_problems_and_exits_with_2(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("- a list\n")
    assert run_explain("t.yaml", None, None, None, "canonical") == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0].startswith("t.yaml:1:1: error: not-a-playbook: ")) == ("", True)


def test_an_older_dialect_is_explained_as_upgraded(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D2."""
    file.write_text(HEAD + "workflow:\n- {step: start, tool: {kind: noop}, next: [{step: end}]}\n")
    assert run_explain("t.yaml", None, None, None, "auto") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "└→ end"
