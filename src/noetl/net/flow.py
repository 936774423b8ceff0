"""Where tokens may go: the arcs that can fire, what they carry, and the order of the steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from noetl.net.graph import Order, drawing_order, reachable
from noetl.net.program import CompiledArc, CompiledStep, Program
from noetl.output import JSON
from noetl.template.compile import BadTemplate, Template, TemplateError, compile_template

Carries: TypeAlias = Literal["success", "failure", "both"]

_KNOWN = frozenset({("event", "name"), ("event", "status"), ("output", "status")})
_WORD = re.compile(r"""'[^']*'|"[^"]*"|[()\[\]{}]|\b(?:and|or|if)\b""")


def live_arcs(step: CompiledStep) -> list[CompiledArc]:
    """The arcs that may fire. In exclusive mode an arc that takes every success hides the later ones.

    Later arcs that take failures may still fire.
    """
    live: list[CompiledArc] = []
    closed = False
    for arc in step.arcs:
        if arc.when is not False and (not closed or arc.takes_failure):
            live.append(arc)
        closed = closed or (not step.inclusive and arc.takes_every_success)
    return live


def steps_in_order(program: Program) -> Order:
    """From the entry on, then the steps that it does not reach, in the order of the text."""
    follows = {name: _targets(step, program) for name, step in program.steps.items()}
    entry = [program.playbook.entry] if program.playbook.entry in program.steps else []
    return drawing_order([*entry, *program.steps], follows)


def steps_reached(program: Program) -> frozenset[str]:
    """The steps that arcs lead to from the entry."""
    if any(arc.targets is None for step in program.steps.values() for arc in step.arcs):
        return frozenset(program.steps)
    if program.playbook.entry not in program.steps:
        return frozenset()
    follows = {name: _targets(step, program) for name, step in program.steps.items()}
    return frozenset(reachable([program.playbook.entry], follows))


def _targets(step: CompiledStep, program: Program) -> list[str]:
    """A dynamic arc without `to` has no known target."""
    return [target for arc in step.arcs for target in arc.targets or () if target in program.steps]


def carries(arc: CompiledArc, step: CompiledStep) -> Carries:
    """What an arc may carry: the success of its step, its failure, or both (D37).

    For display only: the engine never decides by it. A guard is split at its `and`s; a part that reads only
    the way in which the step ended can be evaluated before the run.
    """
    if not (arc.takes_failure and isinstance(arc.when, Template)):
        return "success"
    parts = list(_parts(arc.when))
    done = "loop.done" if step.source.loops else "step.done"
    success = all(_may_hold(part, _ended(done, "ok")) for part in parts)
    failure = all(_may_hold(part, _ended("step.failed", "error")) for part in parts)
    if success == failure:
        return "both"
    return "success" if success else "failure"


def _ended(name: str, status: str) -> dict[str, JSON]:
    return {"event": {"name": name, "status": status}, "output": {"status": status}}


def _may_hold(part: Template, scope: dict[str, JSON]) -> bool:
    if not all(read.path in _KNOWN for read in part.reads):
        return True
    try:
        return part.holds(scope)
    except TemplateError:
        return True


def _parts(when: Template) -> Iterator[Template]:
    """The guard holds when all parts hold; one that cannot be split is its only part."""
    text = when.source.strip().removeprefix("{{").removesuffix("}}")
    texts = _conjuncts(text) if when.typed else None
    try:
        yield from [compile_template(f"{{{{ {each} }}}}") for each in texts or ()] or [when]
    except BadTemplate:
        yield when


def _conjuncts(text: str) -> list[str] | None:
    """Split at `and` outside quotes and brackets; None when there is also an `or` or `if`."""
    depth, begin = 0, 0
    found = []
    for word in _WORD.finditer(text):
        if word[0] in ("(", "[", "{"):
            depth += 1
        elif word[0] in (")", "]", "}"):
            depth -= 1
        elif depth == 0 and word[0] in ("or", "if"):
            return None
        elif depth == 0 and word[0] == "and":
            found.append(text[begin : word.start()])
            begin = word.end()
    return [*found, text[begin:]]
