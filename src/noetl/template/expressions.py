"""Compiles expressions into closures: literals, logic, comparison, calculation, `a if b else c`.

Each handler turns a syntax tree of Jinja2 into a function of scope and meter, without evaluating anything.
Kinds of expressions without a handler are not allowed.
"""

from __future__ import annotations

from math import isfinite

from jinja2 import nodes

from noetl.template.calls import compile_call, compile_filter, compile_test
from noetl.template.context import Comparison, CompileContext, Expr, Handler, Run, Scope, constant
from noetl.template.limits import INT_MAX, Meter, json_text
from noetl.template.operators import CALCULATIONS, COMPARISONS, SIGNS
from noetl.template.values import JSON, TemplateError, Undefined, kind_of, truth, undefined

_SCALARS = frozenset({str, int, float, bool, type(None)})


def _literal(tree: nodes.Const, context: CompileContext) -> Expr:
    value = tree.value
    if type(value) is str:
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            return context.fault("bad-template", "a text contains half a surrogate pair", tree.lineno)
        return constant(context.text(value))
    if (type(value) is int and value > INT_MAX) or (type(value) is float and not isfinite(value)):
        return context.fault("bad-template", f"a number is too large (limit INT_MAX: {INT_MAX})", tree.lineno)
    return constant(value)


def _list(tree: nodes.List | nodes.Tuple, context: CompileContext) -> Expr:
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


def _map(tree: nodes.Dict, context: CompileContext) -> Expr:
    keys = context.expressions(pair.key for pair in tree.items)
    values = context.expressions(pair.value for pair in tree.items)
    for pair, key in zip(tree.items, keys, strict=True):
        if key.constant and type(key.value) is not str:
            context.fault(
                "bad-template", f"a key of a map must be text, not {kind_of(key.value)}", pair.lineno
            )
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


def _operands(tree: nodes.BinExpr, context: CompileContext) -> list[Expr]:
    """The operands of `a and b and c`, which is a left-leaning tree, in order.

    In an `and`, a true operand before the last one is never the result: only its truth is used.
    """
    truth_only, both = context.truth_only, isinstance(tree, nodes.And)
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


def _both(tree: nodes.And, context: CompileContext) -> Expr:
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


def _either(tree: nodes.Or, context: CompileContext) -> Expr:
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


def _not(tree: nodes.Not, context: CompileContext) -> Expr:
    operand = context.expression(tree.node, optional=True, truth_only=True)
    run = truth_of(operand)
    return Expr(lambda scope, meter: not run(scope, meter), cost=1 + operand.cost, boolean=True)


def _choice(tree: nodes.CondExpr, context: CompileContext) -> Expr:
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


def _compare(tree: nodes.Compare, context: CompileContext) -> Expr:
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


def _calculation(tree: nodes.BinExpr, context: CompileContext) -> Expr:
    left, right = context.expression(tree.left), context.expression(tree.right)
    calculate, first, second = CALCULATIONS[type(tree).__name__], left.run, right.run
    return Expr(
        lambda scope, meter: calculate(meter, first(scope, meter), second(scope, meter)),
        cost=3 + left.cost + right.cost,
    )


def _sign(tree: nodes.UnaryExpr, context: CompileContext) -> Expr:
    operand = context.expression(tree.node)
    if operand.constant and type(operand.value) in (int, float):
        return constant(-operand.value if isinstance(tree, nodes.Neg) else operand.value)
    signed, run = SIGNS[type(tree).__name__], operand.run
    return Expr(lambda scope, meter: signed(meter, run(scope, meter)), cost=2 + operand.cost)


def _joined(tree: nodes.Concat, context: CompileContext) -> Expr:
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
    nodes.Const: _literal,
    nodes.List: _list,
    nodes.Tuple: _list,
    nodes.Dict: _map,
    nodes.And: _both,
    nodes.Or: _either,
    nodes.Not: _not,
    nodes.CondExpr: _choice,
    nodes.Compare: _compare,
    nodes.Add: _calculation,
    nodes.Sub: _calculation,
    nodes.Mul: _calculation,
    nodes.Div: _calculation,
    nodes.FloorDiv: _calculation,
    nodes.Mod: _calculation,
    nodes.Pow: _calculation,
    nodes.Neg: _sign,
    nodes.Pos: _sign,
    nodes.Concat: _joined,
    nodes.Filter: compile_filter,
    nodes.Test: compile_test,
    nodes.Call: compile_call,
}
