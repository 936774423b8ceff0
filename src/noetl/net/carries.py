"""What an arc may carry: the success of its step, its failure, or both (D37). To show, never to decide.

A guard is taken apart at its `and`s; a part that reads only how the step ended can be asked beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from noetl.net.net import NetArc
from noetl.output import JSON
from noetl.playbook.model import Step
from noetl.template.compile import BadTemplate, Template, TemplateError, compile_template

Carries: TypeAlias = Literal["success", "failure", "both"]

_KNOWN = frozenset({("event", "name"), ("event", "status"), ("output", "status")})
_WORD = re.compile(r"""'[^']*'|"[^"]*"|[()\[\]{}]|\b(?:and|or|if)\b""")


def carries(arc: NetArc, step: Step) -> Carries:
    if not (arc.takes_failure and isinstance(arc.when, Template)):
        return "success"
    parts = list(_parts(arc.when))
    done = "loop.done" if step.loops else "step.done"
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
    """All of them hold when the guard does; the guard itself when it can not be taken apart."""
    text = when.source.strip().removeprefix("{{").removesuffix("}}")
    texts = _conjuncts(text) if when.typed else None
    try:
        yield from [compile_template(f"{{{{ {each} }}}}") for each in texts or ()] or [when]
    except BadTemplate:
        yield when


def _conjuncts(text: str) -> list[str] | None:
    """Split at `and` outside quotes and brackets; None when an `or` or `if` stands beside it."""
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
