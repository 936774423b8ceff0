"""Small playbooks for the browser tests, each for one interaction with an execution."""

from __future__ import annotations

from typing import Final


def _head(name: str) -> str:
    return f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: demo/{name}}}\n"


# A pasted playbook with a mistake: the last arc names an unknown step.
MISTAKEN: Final = _head("greeting") + (
    'workload: {name: world}\n'
    'workflow:\n'
    '- step: start\n'
    '  tool: {kind: noop, input: {text: "hello, {{ workload.name }}"}}\n'
    '  set: {ctx.greeting: "{{ output.data.text }}"}\n'
    '  next: {arcs: [{step: shout}]}\n'
    '- step: shout\n'
    '  tool: {kind: noop, input: {text: "{{ ctx.greeting | upper }}"}}\n'
    '  next: {arcs: [{step: finsh}]}\n'
    '- step: finish\n'
    '  tool: {kind: noop, input: {said: "{{ ctx.greeting }}"}}\n'
)  # fmt: skip
GREETING: Final = MISTAKEN.replace("finsh", "finish")

# Fails until the file exists.
FAILING: Final = _head("import") + (
    'workload: {file: ""}\n'
    'workflow:\n'
    '- step: start\n'
    '  next: {arcs: [{step: read}]}\n'
    '- step: read\n'
    '  tool:\n'
    '    kind: python\n'
    '    input: {file: "{{ workload.file }}"}\n'
    '    code: "def main(file): return {\'text\': open(file).read()}"\n'
    '  next: {arcs: [{step: report}]}\n'
    '- step: report\n'
    '  tool: {kind: noop, input: {text: "imported"}}\n'
)  # fmt: skip

# Waits for an approval.
APPROVAL: Final = _head("refund") + (
    'workload: {amount: 1200}\n'
    'workflow:\n'
    '- step: start\n'
    '  next: {arcs: [{step: approve}]}\n'
    '- step: approve\n'
    '  desc: Somebody looks at large sums\n'
    '  tool: {kind: wait, signal: approval}\n'
    '  set: {ctx.approval: "{{ output.data }}"}\n'
    '  next: {arcs: [{step: pay, when: "{{ ctx.approval.approved }}"}, {step: refuse}]}\n'
    '- step: pay\n'
    '  tool: {kind: noop, input: {paid: "{{ workload.amount }}"}}\n'
    '- step: refuse\n'
    '  tool: {kind: noop, input: {paid: 0}}\n'
)  # fmt: skip

# Two facts for each iteration.
LOOP: Final = _head("squares") + (
    'workload: {many: 10000}\n'
    'workflow:\n'
    '- step: start\n'
    '  next: {arcs: [{step: square}]}\n'
    '- step: square\n'
    '  loop: {in: "{{ range(workload.many) }}", iterator: number, spec: {mode: parallel, max_in_flight: 64}}\n'
    '  tool: {kind: noop, input: {square: "{{ iter.number * iter.number }}"}}\n'
    '  set: {ctx.last: "{{ output.data[-1].square }}"}\n'
    '  next: {arcs: [{step: report}]}\n'
    '- step: report\n'
    '  tool: {kind: noop, input: {last: "{{ ctx.last }}"}}\n'
)  # fmt: skip

# Runs one step for each signal.
STAGES: Final = _head("stages") + (
    'workflow:\n'
    + "".join(
        f'- step: {name}\n'
        f'  tool: {{kind: wait, signal: go_{name}}}\n'
        f'  next: {{arcs: [{{step: {after}}}]}}\n'
        for name, after in (("start", "second"), ("second", "third"), ("third", "last"))
    )
    + '- step: last\n'
    '  tool: {kind: noop, input: {text: over}}\n'
)  # fmt: skip

# Too large for the log: the data is in the result store, and the log has a ref.
LARGE: Final = _head("report") + (
    'workflow:\n'
    '- step: start\n'
    '  tool:\n'
    '    kind: python\n'
    '    code: "def main(): return [{\'row\': n, \'text\': \'many words \' * 5} for n in range(3000)]"\n'
)  # fmt: skip
