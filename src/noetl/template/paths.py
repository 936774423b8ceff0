"""Compiles names, `a.b`, `a['b']`, `a[0]`, `a[i]` and `a[1:3]`, and records which paths they read.

Only maps, lists and texts can be looked into. Attributes of Python objects are never read.
"""

from __future__ import annotations

from typing import TypeAlias

from jinja2 import nodes

from noetl.template.context import UNNAMED, CompileContext, Expr, Run, Scope
from noetl.template.limits import EXPRESSION_DEPTH_MAX, Meter
from noetl.template.values import (
    JSON,
    MISSING,
    ScopePath,
    TemplateError,
    Undefined,
    kind_of,
    lookup,
    path_text,
    subscript_text,
    undefined,
)

Step: TypeAlias = "str | int | nodes.Expr"
LOOP_FIELDS = ("index", "index0", "first", "last", "length", "revindex", "revindex0")


def compile_path(tree: nodes.Expr, context: CompileContext, optional: bool) -> Expr:
    root, steps = _taken_apart(tree, context)
    if len(steps) > EXPRESSION_DEPTH_MAX:
        message = f"a path is too long (limit EXPRESSION_DEPTH_MAX: {EXPRESSION_DEPTH_MAX})"
        return context.fault("bad-template", message, tree.lineno)
    known: list[str | int] = []
    for step in steps:
        if isinstance(step, nodes.Node):
            break
        known.append(context.text(step) if isinstance(step, str) else step)
    rest = steps[len(known) :]
    if not isinstance(root, nodes.Name):
        start = context.expression(root)
        expr = _below(start, tuple(known)) if known else start
    elif root.name in context.variables:
        if root.name == "loop" and known and known[0] not in LOOP_FIELDS:
            fix = f"loop has {', '.join(LOOP_FIELDS)}"
            return context.fault("not-allowed", f'loop has no "{known[0]}"', root.lineno, str(known[0]), fix)
        slot = context.variables[root.name]
        context.used.add(slot)
        start = Expr(lambda _scope, meter: meter.slots[slot], label=root.name)
        expr = _below(start, tuple(known)) if known else start
    elif root.name == "output" and not known and context.projector is not None:
        expr = context.projector.whole()
    else:
        path: ScopePath = (root.name, *known)
        context.read(path, root.lineno, optional=optional)
        expr = Expr(_static(path), label=path_text(path), path=path)
    for step in rest:
        expr = _next(expr, step, context)
    return expr


def _taken_apart(tree: nodes.Expr, context: CompileContext) -> tuple[nodes.Expr, list[Step]]:
    steps: list[Step] = []
    while True:
        if steps and context.is_part(tree):
            return tree, steps[::-1]
        if isinstance(tree, nodes.Getattr):
            steps.append(tree.attr)
        elif isinstance(tree, nodes.Getitem):
            steps.append(_subscript(tree.arg))
        else:
            return tree, steps[::-1]
        tree = tree.node


def _subscript(tree: nodes.Expr) -> Step:
    """A constant text or whole number is part of the path; any other subscript is an expression."""
    sign = 1
    inner = tree
    if isinstance(tree, nodes.Neg):
        sign, inner = -1, tree.node
    if isinstance(inner, nodes.Const):
        if type(inner.value) is int:
            return sign * inner.value
        if type(inner.value) is str and sign == 1:
            return inner.value
    return tree


def _static(path: ScopePath) -> Run:
    """A path from the root of the scope. Short paths, which are the usual case, have fast versions."""
    missing = Undefined(path_text(path), path)
    name = str(path[0])
    rest = path[1:]
    if not rest:
        return lambda scope, _: scope.get(name, missing)
    first = rest[0]
    if len(rest) == 1 and type(first) is str:

        def two(scope: Scope, _: Meter) -> JSON:
            value = scope.get(name)
            return value.get(first, missing) if type(value) is dict else missing

        return two
    second = rest[1] if len(rest) == 2 else None
    if type(first) is str and type(second) is str:

        def three(scope: Scope, _: Meter) -> JSON:
            value = scope.get(name)
            if type(value) is dict:
                value = value.get(first)
                if type(value) is dict:
                    return value.get(second, missing)
            return missing

        return three

    def longer(scope: Scope, _: Meter) -> JSON:
        value = scope.get(name, MISSING)
        for key in rest:
            value = lookup(value, key)
        return missing if value is MISSING else value

    return longer


def _below(start: Expr, keys: ScopePath) -> Expr:
    """A path into a computed value or into the variable of a loop."""
    label = path_text((start.label, *keys))
    if start.label == UNNAMED:
        label = f"{path_text(('', *keys))} of {UNNAMED}"
    missing = Undefined(label)
    run = start.run

    def below(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        for key in keys:
            value = lookup(value, key)
        return missing if value is MISSING else value

    return Expr(below, label=label, cost=start.cost + len(keys))


def _next(start: Expr, step: Step, context: CompileContext) -> Expr:
    if isinstance(step, nodes.Slice):
        return _slice(start, step, context)
    if not isinstance(step, nodes.Node):
        return _below(start, (context.text(step) if isinstance(step, str) else step,))
    key = context.expression(step)
    run, label, key_run = start.run, start.label, key.run

    def subscript(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        key_value = key_run(scope, meter)
        if type(key_value) is Undefined:
            raise undefined(key_value)
        item = lookup(value, key_value)
        return Undefined(f"{label}[{subscript_text(key_value)}]") if item is MISSING else item

    return Expr(subscript, label=f"{label}[…]", cost=start.cost + key.cost + 2)


def _slice(start: Expr, tree: nodes.Slice, context: CompileContext) -> Expr:
    ends = [None if end is None else context.expression(end) for end in (tree.start, tree.stop, tree.step)]
    run, label = start.run, start.label
    missing = Undefined(f"{label}[…]")

    def cut(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        places = [None if end is None else end.run(scope, meter) for end in ends]
        for key_value in places:
            if type(key_value) is Undefined:
                raise undefined(key_value)
            if key_value is not None and type(key_value) is not int:
                raise TemplateError(f"the bounds of a slice are whole numbers, not {kind_of(key_value)}")
        if places[2] == 0:
            raise TemplateError("the step of a slice must not be 0")
        if type(value) is not list and type(value) is not str:
            return missing
        bounds = slice(*places)
        count = len(range(*bounds.indices(len(value))))
        if type(value) is str:
            meter.text(count)
            return meter.keep(str(value[bounds]))
        meter.items(count)
        return value[bounds]

    return Expr(cut, label=f"{label}[…]", cost=start.cost + 6 + sum(end.cost for end in ends if end))
