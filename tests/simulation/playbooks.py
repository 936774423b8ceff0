"""The playbooks that simulated clusters run: chains, loops, joins, blocks, children, retries and waits."""

from __future__ import annotations

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {0}, path: {0}}}\n"
RETRY = "spec: {policy: {rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 20, delay: 0.5}}, {else: {then: {do: continue}}}]}}"

MIX = (
    HEAD.format("mix")
    + f"""\
workload: {{items: [1, 2, 3, 4]}}
workflow:
- step: start
  tool: {{kind: http, url: x, {RETRY}}}
  set: {{ctx.first: "{{{{ output.data }}}}"}}
  next: {{spec: {{mode: inclusive}}, arcs: [{{step: fan}}, {{step: side}}, {{step: keep}}]}}
- step: fan
  loop: {{in: "{{{{ workload.items }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 2, policy: {{reduce: {{ctx.sum: sum}}}}}}}}
  tool:
  - {{name: get, kind: http, url: x, {RETRY}}}
  - {{name: add, kind: noop, set: {{ctx.sum: "{{{{ get.data + iter.n }}}}"}}}}
  next: {{arcs: [{{step: done}}]}}
- step: side
  tool:
  - {{kind: workbook, block: twice}}
  - {{kind: playbook, path: child, input: {{seed: 3}}}}
  next: {{arcs: [{{step: done}}, {{step: done, when: "{{{{ event.name == 'step.failed' }}}}"}}]}}
- step: keep
  tool: {{kind: noop, input: {{a: 1, b: 2}}}}
  set: {{ctx.rows_ref: "{{{{ output.ref }}}}"}}
  next: {{arcs: [{{step: rows}}]}}
- step: rows
  loop: {{in: "{{{{ ctx.rows_ref }}}}", iterator: row, spec: {{mode: parallel}}}}
  tool: {{kind: workbook, block: inner}}
  next: {{arcs: [{{step: done}}]}}
- step: done
  spec: {{policy: {{admit: {{join: all}}}}}}
  tool: {{kind: noop, input: {{first: "{{{{ ctx.first }}}}", sum: "{{{{ ctx.sum }}}}"}}}}
workbook:
  inner:
    loop: {{in: "{{{{ [iter.row.value, 5] }}}}", iterator: x}}
    tool: {{kind: noop, input: {{at: "{{{{ iter.parent.row.key }}}}", x: "{{{{ iter.x }}}}"}}}}
  twice:
    loop: {{in: [1, 2], iterator: i}}
    tool: {{kind: http, url: x, {RETRY}}}
"""
)

CHILD = (
    HEAD.format("child")
    + f"""\
workload: {{seed: 0}}
workflow:
- step: start
  tool: {{kind: http, url: x, {RETRY.replace("delay: 0.5", "delay: 7")}}}
  next: {{arcs: [{{step: end}}]}}
"""
)

NOTE = "set: {{ctx.undone: \"{{{{ (ctx.undone | default([])) + ['{0}'] }}}}\"}}"
UNDO = (
    HEAD.format("undo")
    + f"""\
workflow:
- step: start
  tool: {{kind: http, url: x, {RETRY}}}
  compensate: {{tool: {{kind: http, url: x, {NOTE.format("start")}, {RETRY}}}}}
  next: {{arcs: [{{step: fan}}]}}
- step: fan
  loop: {{in: [1, 2, 3], iterator: n, spec: {{mode: parallel}}}}
  tool: {{kind: http, url: x, {RETRY}}}
  compensate: {{tool: [{{kind: workbook, block: each, input: {{done: "{{{{ output.data }}}}"}}}}, {{kind: noop, {NOTE.format("fan")}}}]}}
  next: {{arcs: [{{step: call}}]}}
- step: call
  tool: {{kind: playbook, path: child, input: {{seed: 3}}}}
  compensate: {{tool: {{kind: playbook, path: child, input: {{seed: 4}}, {NOTE.format("call")}}}}}
  next: {{arcs: [{{step: breaks}}]}}
- step: breaks
  tool: {{kind: noop, input: {{x: "{{{{ ctx.nothing | upper }}}}"}}}}
workbook:
  each:
    loop: {{in: "{{{{ input.done }}}}", iterator: id}}
    tool: {{kind: http, url: x, {RETRY}}}
"""
)

TELL = (
    HEAD.format("tell")
    + f"""\
executor: {{spec: {{expected_s: 4}}}}
workload: {{breaks: false}}
notify:
- on: [failed, finished]
  tool: {{kind: http, url: x, {RETRY}}}
- on: [failed]
  tool: {{kind: noop, input: {{error: "{{{{ execution.error.message }}}}"}}}}
- on: [late]
  tool: {{kind: http, url: x, {RETRY}}}
workflow:
- step: start
  tool: {{kind: playbook, path: child}}
  next: {{arcs: [{{step: end, when: "{{{{ not workload.breaks }}}}"}}, {{step: breaks}}]}}
- step: breaks
  tool: {{kind: noop, input: {{x: "{{{{ ctx.nothing | upper }}}}"}}}}
"""
)

PAGES = (
    HEAD.format("pages")
    + f"""\
workload: {{cities: [1, 2, 3]}}
workflow:
- step: start
  tool: {{kind: http, url: x, json: {{list: "{{{{ workload.cities }}}}"}}, {RETRY}}}
  set: {{ctx.first: "{{{{ output.data }}}}"}}
  next: {{spec: {{mode: inclusive}}, arcs: [{{step: fetch}}, {{step: side}}]}}
- step: fetch
  loop: {{in: "{{{{ workload.cities }}}}", iterator: city, spec: {{mode: parallel, max_in_flight: 2, policy: {{reduce: {{ctx.sum: sum}}}}}}}}
  tool:
  - {{name: one, kind: http, url: x, json: {{city: "{{{{ iter.city }}}}", first: "{{{{ ctx.first }}}}"}}, {RETRY}}}
  - {{name: two, kind: http, url: x, json: {{next: "{{{{ _prev }}}}"}}, {RETRY}}}
  - {{name: add, kind: noop, set: {{ctx.sum: "{{{{ two.data }}}}"}}}}
  next: {{arcs: [{{step: store}}]}}
- step: side
  tool:
  - {{kind: workbook, block: twice, input: {{at: "{{{{ ctx.first }}}}"}}}}
  - {{kind: playbook, path: child, input: {{seed: 3}}}}
  next: {{arcs: [{{step: store}}]}}
- step: store
  spec: {{policy: {{admit: {{join: all}}}}}}
  tool: {{kind: http, url: x, json: {{sum: "{{{{ ctx.sum }}}}"}}, {RETRY}}}
  set: {{ctx.stored: "{{{{ output.data }}}}"}}
workbook:
  twice:
    loop: {{in: [1, 2], iterator: i}}
    tool: {{kind: http, url: x, json: {{i: "{{{{ iter.i }}}}", at: "{{{{ input.at }}}}"}}, {RETRY}}}
"""
)
ASK = (
    HEAD.format("ask")
    + f"""\
workflow:
- step: start
  tool: {{kind: http, url: x, {RETRY}}}
  next: {{arcs: [{{step: ask}}]}}
- step: ask
  tool: {{kind: wait, signal: approval}}
  set: {{ctx.answer: "{{{{ output.data }}}}"}}
  next: {{arcs: [{{step: each}}]}}
- step: each
  loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel}}}}
  tool: {{kind: wait, signal: "item-{{{{ iter.n }}}}"}}
  next: {{arcs: [{{step: last}}]}}
- step: last
  tool: {{kind: http, url: x, {RETRY}}}
"""
)
ASKED = ("approval", "item-1", "item-2")  # the signals that it waits for
EDITS = {  # of PAGES: the path of the edited playbook → what is replaced
    "items": ("cities: [1, 2, 3]}", "cities: [3, 4, 1]}"),
    "second": ("{next: ", "{after: "),
    "first": ("list: ", "all: "),
    "derived": ('{ctx.first: "{{ output.data }}"}', '{ctx.first: "{{ output.data + 1 }}"}'),
    "set": ('{ctx.stored: "{{ output.data }}"}', '{ctx.stored: "{{ output.data }}", ctx.added: 1}'),
}


def edited(name: str) -> str:
    old, new = EDITS[name]
    assert old in PAGES
    return PAGES.replace("name: pages, path: pages", f"name: {name}, path: {name}").replace(old, new)


TEXTS = {"mix": MIX, "child": CHILD, "undo": UNDO, "tell": TELL, "pages": PAGES, "ask": ASK}
TEXTS |= {name: edited(name) for name in EDITS}
