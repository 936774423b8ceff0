"""Compiles text with expressions, `{% if %}` and `{% for %}` into closures that write pieces of text.

All other statements of Jinja2 are rejected here. The output is counted while it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from noetl.template import nodes
from noetl.template.context import CompileContext, Expr, Run, Scope
from noetl.template.expressions import truth_of
from noetl.template.limits import Meter, json_text
from noetl.template.shell import ShellPlacements
from noetl.template.sql import SqlPlacement, SqlPlacements
from noetl.template.values import JSON, TemplateError, Undefined, kind_of, undefined

Write: TypeAlias = Callable[[Scope, Meter, list[JSON]], None]
_STATEMENTS = {
    "Assign": "set",
    "AssignBlock": "set",
    "CallBlock": "call",
    "FilterBlock": "filter",
    "FromImport": "from",
    "Scope": "autoescape",
}
_FIXES = {
    "set": "templates have no variables; repeat the expression, or use the `set` of the step",
    "filter": "write {{ value|filter }}",
    "if": "write {{ a if condition else b }}",
    "for": "use map, select or join in {{ }}",
    "print": "write {{ value }}",
}
_TURN_COST = 8
_BINDING_COST = 12  # fuel for a bound value in SQL and the piece of text before it
_GROUP = ("grouper", "list")


class TextBlock:
    """A sequence of functions that write pieces of text."""

    __slots__ = ("cost", "pieces")

    def __init__(self) -> None:
        self.pieces: list[Write] = []
        self.cost = 0

    def add(self, write: Write, cost: int) -> None:
        self.pieces.append(write)
        self.cost += cost

    def write(self, scope: Scope, meter: Meter, out: list[JSON]) -> None:
        for piece in self.pieces:
            piece(scope, meter, out)


class BodyCompiler:
    """Compiles the body of a template. It numbers the tags, so that an error can quote the right one."""

    def __init__(
        self, context: CompileContext, *, statements: bool, sql: SqlPlacements | ShellPlacements | None = None
    ) -> None:
        self._context = context
        self._statements = statements
        self._sql_placements = sql  # None: the template is neither SQL nor a shell script
        self._tags = 0

    def block(self, body: list[nodes.Node]) -> TextBlock:
        block = TextBlock()
        for tree in body:
            if isinstance(tree, nodes.OutputNode):
                if self._sql_placements is not None:
                    self._sql(tree.nodes, self._sql_placements, block)
                    continue
                for part in tree.nodes:
                    self._output(part, block)
            elif isinstance(tree, nodes.IfNode):
                self._allow("if", tree)
                self._if(tree, block)
            elif isinstance(tree, nodes.ForNode):
                self._allow("for", tree)
                self._for(tree, block)
            else:
                kind = tree.name if isinstance(tree, nodes.OtherStatementNode) else tree.kind
                reject_statement(_STATEMENTS.get(kind, kind.lower()), tree.lineno, self._context)
        return block

    def _allow(self, name: str, tree: nodes.Node) -> None:
        if not self._statements:
            reject_statement(name, tree.lineno, self._context)

    def _output(self, tree: nodes.ExprNode, block: TextBlock) -> None:
        if isinstance(tree, nodes.TemplateDataNode):
            block.add(_constant(self._context.text(tree.data)), 2)
        else:
            tag = self._tag()
            expr = self._context.expression(tree)
            block.add(_written(_marked(_text_of(expr.run), tag)), expr.cost + 4)

    def _sql(self, trees: list[nodes.ExprNode], sql: SqlPlacements | ShellPlacements, block: TextBlock) -> None:
        for part in sql.parts(trees):
            if isinstance(part, SqlPlacement):
                tag = self._tag()
                expr = self._context.expression(part.expression)
                write = _SQL_WRITES[part.mode](_marked(_defined(expr.run), tag))
                block.add(write, expr.cost + 4)
            else:
                block.add(_constant(part), 2)
        sql.leave()

    def _tag(self) -> int:
        self._tags += 1
        return self._tags - 1

    def _if(self, tree: nodes.IfNode, block: TextBlock) -> None:
        branches: list[tuple[Run, TextBlock]] = []
        cost = 0
        for branch in (tree, *tree.elif_):
            tag = self._tag()
            test = self._context.expression(branch.test, optional=True)
            branches.append((_marked(truth_of(test), tag), self.block(branch.body)))
            cost += test.cost + 2
        otherwise = self.block(tree.else_)

        def choose(scope: Scope, meter: Meter, out: list[JSON]) -> None:
            for holds, body in branches:
                if holds(scope, meter):
                    body.write(scope, meter, out)
                    return
            otherwise.write(scope, meter, out)

        block.add(choose, cost + max(otherwise.cost, *(body.cost for _, body in branches)))

    def _for(self, tree: nodes.ForNode, block: TextBlock) -> None:
        context = self._context
        tag = self._tag()
        if tree.recursive:
            reject_statement("for … recursive", tree.lineno, context)
        source = context.expression(tree.iter)
        outside = dict(context.variables)
        assign = _assignment(tree.target, context)
        test = None if tree.test is None else context.expression(tree.test, optional=True)
        loop = _slot("loop", context)
        body = self.block(tree.body)
        counted = loop in context.used
        context.variables = outside
        otherwise = self.block(tree.else_)
        items = _marked(_items(source, assign, test), tag)

        def repeat(scope: Scope, meter: Meter, out: list[JSON]) -> None:
            chosen = items(scope, meter)
            count = len(chosen)
            for index, item in enumerate(chosen):
                meter.charge(_TURN_COST + body.cost)
                assign(meter.slots, item)
                if counted:
                    meter.slots[loop] = _turn(index, count)
                body.write(scope, meter, out)
            if not chosen:
                otherwise.write(scope, meter, out)

        block.add(repeat, source.cost + otherwise.cost + 4)


def _marked(run: Run, tag: int) -> Run:
    """Record in a TemplateError which tag of the template raised it."""

    def marked(scope: Scope, meter: Meter) -> JSON:
        try:
            return run(scope, meter)
        except TemplateError as error:
            error.tag = tag
            raise

    return marked


def reject_statement(name: str, line: int, context: CompileContext) -> None:
    context.fault("not-allowed", f"{{% {name} %}} is not allowed here", line, name, _FIXES.get(name))


def _constant(text: str) -> Write:
    def write(_scope: Scope, meter: Meter, out: list[JSON]) -> None:
        _count(meter, text)
        out.append(text)

    return write


def _text_of(run: Run) -> Run:
    """The value of an expression, as it is written inside text."""

    def text_of(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        if type(value) is Undefined:
            raise undefined(value)
        return value if type(value) is str else json_text(value, meter)

    return text_of


def _written(run: Run) -> Write:
    def write(scope: Scope, meter: Meter, out: list[JSON]) -> None:
        text = run(scope, meter)
        _count(meter, text)
        out.append(text)

    return write


class Binding(NamedTuple):
    """A bound value between two pieces of SQL."""

    value: JSON


def _defined(run: Run) -> Run:
    def defined(scope: Scope, meter: Meter) -> JSON:
        value = run(scope, meter)
        if type(value) is Undefined:
            raise undefined(value)
        return value

    return defined


def _bound(run: Run) -> Write:
    def write(scope: Scope, meter: Meter, out: list[JSON]) -> None:
        value = run(scope, meter)
        meter.items(1)
        meter.charge(_BINDING_COST)
        out.append(Binding(value))

    return write


def _bound_list(run: Run) -> Write:
    """Write `$1, $2, $3`, or NULL for an empty list, because SQL has no `IN ()`."""

    def write(scope: Scope, meter: Meter, out: list[JSON]) -> None:
        values = run(scope, meter)
        meter.items(2 * len(values))
        meter.charge(_BINDING_COST * len(values))
        for index, value in enumerate(values):
            out.extend((", " if index else "", Binding(value)))
        if not values:
            out.append("NULL")

    return write


_SQL_WRITES = {"value": _bound, "list": _bound_list, "name": _written}


def _count(meter: Meter, text: str) -> None:
    meter.written += len(text)
    if meter.written > meter.text_max:
        raise meter.too_long()


def _slot(name: str, context: CompileContext) -> int:
    context.variables[name] = slot = context.slots
    context.slots += 1
    return slot


def _assignment(target: nodes.Node, context: CompileContext) -> Callable[[list[JSON], JSON], None]:
    """A function that assigns an item to the variable of a loop, or its parts to several variables."""
    if isinstance(target, nodes.NameNode):
        slot = _slot(target.name, context)
        return lambda slots, item: slots.__setitem__(slot, item)
    targets = target.items if isinstance(target, nodes.TupleNode) else [target]
    names = [each.name for each in targets if isinstance(each, nodes.NameNode)]
    if len(names) != len(targets):
        context.fault(
            "not-allowed", "the target of a loop is one variable, or several separated by commas", target.lineno
        )
    places = [_slot(name, context) for name in names]

    def spread(slots: list[JSON], item: JSON) -> None:
        # A group of groupby is a map here, and a pair in Jinja2.
        parts = list(item.values()) if type(item) is dict and tuple(item) == _GROUP else item
        if type(parts) is not list or len(parts) != len(places):
            what = f"a list of {len(parts)}" if type(parts) is list else kind_of(parts)
            raise TemplateError(f"the loop has {len(places)} variables, but an item is {what}")
        for index, part in zip(places, parts, strict=True):
            slots[index] = part

    return spread


def _items(
    source: Expr, assign: Callable[[list[JSON], JSON], None], test: Expr | None
) -> Callable[[Scope, Meter], list[JSON]]:
    """A function that returns the items of a loop for which its test holds."""
    holds = None if test is None else truth_of(test)
    cost = 0 if test is None else test.cost + _TURN_COST

    def items(scope: Scope, meter: Meter) -> list[JSON]:
        value = source.run(scope, meter)
        if type(value) is Undefined:
            raise undefined(value)
        if type(value) not in (list, dict, str):
            raise TemplateError(f"a loop needs a list, not {kind_of(value)}")
        if type(value) is not list:
            meter.items(len(value))
            value = list(value)
        if holds is None:
            return list(value) if type(value) is not list else value
        chosen = []
        for item in value:
            meter.charge(cost)
            assign(meter.slots, item)
            if holds(scope, meter):
                chosen.append(item)
        meter.items(len(chosen))
        return chosen

    return items


def _turn(index: int, count: int) -> dict[str, JSON]:
    return {
        "index": index + 1,
        "index0": index,
        "first": index == 0,
        "last": index == count - 1,
        "length": count,
        "revindex": count - index,
        "revindex0": count - index - 1,
    }
