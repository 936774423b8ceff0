"""Expressions → closures: paths, literals, operators, conditions."""

from __future__ import annotations

from math import isfinite
from typing import TypeAlias

from noetl.template import nodes
from noetl.template.calls import compile_call, compile_filter, compile_test
from noetl.template.context import UNNAMED, Comparison, CompileContext, Expr, Handler, Run, Scope, constant
from noetl.template.limits import EXPRESSION_DEPTH_MAX, INT_MAX, Meter, json_text
from noetl.template.operators import CALCULATIONS, COMPARISONS, SIGNS
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
    truth,
    undefined,
)

Step: TypeAlias = "str | int | nodes.ExprNode"
LOOP_FIELDS = ("index", "index0", "first", "last", "length", "revindex", "revindex0")


def compile_path(tree: nodes.ExprNode, context: CompileContext, optional: bool) -> Expr:
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
    if not isinstance(root, nodes.NameNode):
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


def _taken_apart(tree: nodes.ExprNode, context: CompileContext) -> tuple[nodes.ExprNode, list[Step]]:
    steps: list[Step] = []
    while True:
        if steps and context.is_part(tree):
            return tree, steps[::-1]
        if isinstance(tree, nodes.GetattrNode):
            steps.append(tree.attr)
        elif isinstance(tree, nodes.GetitemNode):
            steps.append(_subscript(tree.arg))
        else:
            return tree, steps[::-1]
        tree = tree.node


def _subscript(tree: nodes.ExprNode) -> Step:
    """A constant text or whole number is part of the path; any other subscript is an expression."""
    sign = 1
    inner = tree
    if isinstance(tree, nodes.NegNode):
        sign, inner = -1, tree.node
    if isinstance(inner, nodes.ConstNode):
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
    if isinstance(step, nodes.SliceNode):
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


def _slice(start: Expr, tree: nodes.SliceNode, context: CompileContext) -> Expr:
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


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _literal(tree: nodes.ConstNode, context: CompileContext) -> Expr:
    value = tree.value
    if type(value) is str:
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            return context.fault("bad-template", "a text contains half a surrogate pair", tree.lineno)
        return constant(context.text(value))
    if (type(value) is int and value > INT_MAX) or (type(value) is float and not isfinite(value)):
        return context.fault("bad-template", f"a number is too large (limit INT_MAX: {INT_MAX})", tree.lineno)
    return constant(value)


def _list(tree: nodes.ListNode | nodes.TupleNode, context: CompileContext) -> Expr:
    items = context.expressions(tree.items)
    if all(item.constant for item in items):
        return constant([item.value for item in items])
    runs = [item.run for item in items]

    def build(scope: Scope, meter: Meter) -> JSON:
        values = [run(scope, meter) for run in runs]
        for value in values:
            if type(value) is Undefined:
                raise undefined(value)
        return values

    return Expr(build, cost=2 + _cost(items))


def _map(tree: nodes.DictNode, context: CompileContext) -> Expr:
    keys = context.expressions(pair.key for pair in tree.items)
    values = context.expressions(pair.value for pair in tree.items)
    for pair, key in zip(tree.items, keys, strict=True):
        if key.constant and type(key.value) is not str:
            context.fault("bad-template", f"a key of a map must be text, not {kind_of(key.value)}", pair.lineno)
    if all(part.constant for part in (*keys, *values)):
        return constant({key.value: value.value for key, value in zip(keys, values, strict=True)})
    runs = [(key.run, value.run) for key, value in zip(keys, values, strict=True)]

    def build(scope: Scope, meter: Meter) -> JSON:
        built = {}
        for key_run, value_run in runs:
            key, value = key_run(scope, meter), value_run(scope, meter)
            for part in (key, value):
                if type(part) is Undefined:
                    raise undefined(part)
            if type(key) is not str:
                raise TemplateError(f"a key of a map must be text, not {kind_of(key)}")
            built[key] = value
        return built

    return Expr(build, cost=2 + 3 * _cost(values) + _cost(keys))


def truth_of(expr: Expr) -> Run:
    """A closure that returns true or false."""
    if expr.boolean:
        return expr.run
    run = expr.run
    return lambda scope, meter: truth(run(scope, meter))


def _operands(tree: nodes.BinExprNode, context: CompileContext) -> list[Expr]:
    """The operands of `a and b and c`, which is a left-leaning tree, in order.

    In an `and`, a true operand before the last one is never the result: only its truth is used.
    """
    truth_only, both = context.truth_only, isinstance(tree, nodes.AndNode)
    trees = [tree.right]
    left = tree.left
    while type(left) is type(tree) and not context.is_part(left):
        trees.append(left.right)
        left = left.left
    trees.append(left)
    return [
        context.expression(one, optional=True, truth_only=truth_only or (both and one is not tree.right))
        for one in reversed(trees)
    ]


def _both(tree: nodes.AndNode, context: CompileContext) -> Expr:
    operands = _operands(tree, context)
    last = operands[-1].run
    if len(operands) == 2 and operands[0].boolean:
        first = operands[0].run
        return _logic(lambda scope, meter: first(scope, meter) and last(scope, meter), operands)
    runs = [operand.run for operand in operands[:-1]]

    def both(scope: Scope, meter: Meter) -> JSON:
        for run in runs:
            value = run(scope, meter)
            if not truth(value):
                return value
        return last(scope, meter)

    return _logic(both, operands)


def _either(tree: nodes.OrNode, context: CompileContext) -> Expr:
    operands = _operands(tree, context)
    last = operands[-1].run
    if len(operands) == 2 and operands[0].boolean:
        first = operands[0].run
        return _logic(lambda scope, meter: first(scope, meter) or last(scope, meter), operands)
    runs = [operand.run for operand in operands[:-1]]

    def either(scope: Scope, meter: Meter) -> JSON:
        for run in runs:
            value = run(scope, meter)
            if truth(value):
                return value
        return last(scope, meter)

    return _logic(either, operands)


def _logic(run: Run, operands: list[Expr]) -> Expr:
    return Expr(run, cost=2 * _cost(operands), boolean=all(operand.boolean for operand in operands))


def _not(tree: nodes.NotNode, context: CompileContext) -> Expr:
    operand = context.expression(tree.node, optional=True, truth_only=True)
    run = truth_of(operand)
    return Expr(lambda scope, meter: not run(scope, meter), cost=1 + operand.cost, boolean=True)


def _choice(tree: nodes.CondExprNode, context: CompileContext) -> Expr:
    truth_only = context.truth_only
    test = context.expression(tree.test, optional=True, truth_only=True)
    yes = context.expression(tree.expr1, truth_only=truth_only)
    if tree.expr2 is None:
        no = constant(Undefined("the value of an if without else"))
    else:
        no = context.expression(tree.expr2, truth_only=truth_only)
    holds, then, otherwise = truth_of(test), yes.run, no.run
    return Expr(
        lambda scope, meter: then(scope, meter) if holds(scope, meter) else otherwise(scope, meter),
        cost=2 + test.cost + max(yes.cost, no.cost),
        boolean=yes.boolean and no.boolean,
    )


def _compare(tree: nodes.CompareNode, context: CompileContext) -> Expr:
    left = context.expression(tree.expr)
    rights = context.expressions(operand.expr for operand in tree.ops)
    cost = 2 + left.cost + 2 * _cost(rights)
    if len(rights) == 1:
        _note(left, tree.ops[0].op, rights[0], tree.lineno, context)
        return Expr(_comparison(left, tree.ops[0].op, rights[0]), cost=cost, boolean=True)
    first = left.run
    links = [(COMPARISONS[operand.op], right.run) for operand, right in zip(tree.ops, rights, strict=True)]

    def chain(scope: Scope, meter: Meter) -> JSON:
        value = first(scope, meter)
        for compare, run in links:
            following = run(scope, meter)
            if not compare(meter, value, following):
                return False
            value = following
        return True

    return Expr(chain, cost=cost, boolean=True)


def _note(left: Expr, sign: str, right: Expr, line: int, context: CompileContext) -> None:
    """Record the constants that a path is compared with, so that the check can find impossible ones."""
    if sign in ("eq", "ne") and left.constant:
        left, right = right, left
    if left.path is not None and right.constant:
        if sign in ("eq", "ne"):
            context.compared.append(Comparison(left.path, (right.value,), line))
        elif sign == "in" and type(right.value) is list:
            context.compared.append(Comparison(left.path, tuple(right.value), line))


def _comparison(left: Expr, sign: str, right: Expr) -> Run:
    """One comparison. Comparisons with a constant on the right, the usual guard, have fast versions."""
    run, value = left.run, right.value
    if right.constant and type(value) in _SCALARS:
        if sign == "eq":
            return lambda scope, meter: run(scope, meter) == value
        if sign == "ne":
            return lambda scope, meter: run(scope, meter) != value
    if right.constant and type(value) is list and {type(item) for item in value} <= _SCALARS:
        if sign == "in":
            return _one_of(run, frozenset(value))
        if sign == "notin":
            one_of = _one_of(run, frozenset(value))
            return lambda scope, meter: not one_of(scope, meter)
    compare, other = COMPARISONS[sign], right.run
    return lambda scope, meter: compare(meter, run(scope, meter), other(scope, meter))


def _one_of(run: Run, values: frozenset[JSON]) -> Run:
    def one_of(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        # Lists and maps are not hashable, and never equal to a scalar.
        return type(value) is not list and type(value) is not dict and value in values

    return one_of


def _calculation(tree: nodes.BinExprNode, context: CompileContext) -> Expr:
    left, right = context.expression(tree.left), context.expression(tree.right)
    calculate, first, second = CALCULATIONS[tree.kind], left.run, right.run
    return Expr(
        lambda scope, meter: calculate(meter, first(scope, meter), second(scope, meter)),
        cost=3 + left.cost + right.cost,
    )


def _sign(tree: nodes.UnaryExprNode, context: CompileContext) -> Expr:
    operand = context.expression(tree.node)
    if operand.constant and type(operand.value) in (int, float):
        return constant(-operand.value if isinstance(tree, nodes.NegNode) else operand.value)
    signed, run = SIGNS[tree.kind], operand.run
    return Expr(lambda scope, meter: signed(meter, run(scope, meter)), cost=2 + operand.cost)


def _joined(tree: nodes.ConcatNode, context: CompileContext) -> Expr:
    parts = context.expressions(tree.nodes)
    runs = [part.run for part in parts]

    def join(scope: Scope, meter: Meter) -> JSON:
        texts = []
        size = 0
        for run in runs:
            value = run(scope, meter)
            if type(value) is Undefined:
                raise undefined(value)
            text = value if type(value) is str else json_text(value, meter)
            size += len(text)
            texts.append(text)
        meter.text(size)
        return meter.keep("".join(texts))

    return Expr(join, cost=4 + 3 * _cost(parts))


def _cost(parts: list[Expr]) -> int:
    return sum(part.cost for part in parts)


HANDLERS: dict[type, Handler] = {
    nodes.ConstNode: _literal,
    nodes.ListNode: _list,
    nodes.TupleNode: _list,
    nodes.DictNode: _map,
    nodes.AndNode: _both,
    nodes.OrNode: _either,
    nodes.NotNode: _not,
    nodes.CondExprNode: _choice,
    nodes.CompareNode: _compare,
    nodes.AddNode: _calculation,
    nodes.SubNode: _calculation,
    nodes.MulNode: _calculation,
    nodes.DivNode: _calculation,
    nodes.FloorDivNode: _calculation,
    nodes.ModNode: _calculation,
    nodes.PowNode: _calculation,
    nodes.NegNode: _sign,
    nodes.PosNode: _sign,
    nodes.ConcatNode: _joined,
    nodes.FilterNode: compile_filter,
    nodes.TestNode: compile_test,
    nodes.CallNode: compile_call,
}
