"""The state of compiling one template: its faults, the paths it reads, the functions it calls.

The context passes each syntax tree to the handler of its kind and limits how deep trees are nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from noetl.template import nodes
from noetl.template.limits import EXPRESSION_DEPTH_MAX, Meter
from noetl.template.syntax import Fault
from noetl.template.values import JSON, ScopePath

Scope: TypeAlias = Mapping[str, JSON]
Run: TypeAlias = Callable[[Scope, Meter], JSON]
UNNAMED = "the value"  # the label of an expression that is not a path, in error messages


class Read(NamedTuple):
    """A path that a template reads from its scope: the longest prefix that is known when it is compiled."""

    path: ScopePath
    line: int  # within the template, from 1
    optional: bool  # a missing value is not an error here


class Comparison(NamedTuple):
    """A path that the template compares with constants, with ==, != or in."""

    path: ScopePath
    values: tuple[JSON, ...]
    line: int  # within the template, from 1


class Expr(Struct, frozen=True):
    """A compiled expression."""

    run: Run
    label: str = UNNAMED  # its name in error messages
    cost: int = 1  # fuel that it takes in one iteration of a {% for %} loop
    path: ScopePath | None = None  # the expression is exactly this path; None: it is not a single path
    constant: bool = False
    value: JSON = None  # of a constant
    boolean: bool = False  # its value is always true or false, so it needs no conversion to a truth value


Handler: TypeAlias = Callable[[JSON, "CompileContext"], Expr]
PathHandler: TypeAlias = Callable[[nodes.ExprNode, "CompileContext", bool], Expr]


class Projector(Protocol):
    """Replaces parts of a template with values that are evaluated elsewhere."""

    def is_part(self, tree: nodes.Node) -> bool: ...

    def part(self, tree: nodes.ExprNode, context: CompileContext, *, truth_only: bool) -> Expr: ...

    def whole(self) -> Expr: ...


_HINTS_MAX = 10  # faults of one template that get a suggestion
_NAME_CHARS_MAX = 60  # a longer name is not a misspelling of a known one


class CompileContext:
    """Compiles the syntax tree of one template into closures, with the help of its handlers."""

    def __init__(
        self,
        handlers: Mapping[type, Handler],
        paths: PathHandler,
        cr_stand_in: str | None,
        projector: Projector | None = None,
    ) -> None:
        self._handlers = handlers
        self._paths = paths
        self._depth = 0
        self._cr_stand_in = cr_stand_in
        self.projector = projector  # None: the whole template is evaluated in one place
        self.truth_only = False  # only the truth of the tree that is being compiled is used
        self.faults: dict[Fault, None] = {}
        self.reads: dict[Read, None] = {}
        self.compared: list[Comparison] = []
        self.calls: set[str] = set()
        self.omits = False  # it calls omit()
        self.variables: dict[str, int] = {}  # of {% for %}: name → slot
        self.slots = 0
        self.pattern_work = 0  # units of fuel spent on compiling its regular expressions
        self.used: set[int] = set()  # slots that an expression reads

    def expression(self, tree: nodes.Node, *, optional: bool = False, truth_only: bool = False) -> Expr:
        """Compile a tree. A fault is recorded and replaced by a constant, so that all faults are found."""
        if self._depth >= EXPRESSION_DEPTH_MAX:
            message = f"an expression is nested too deeply (limit EXPRESSION_DEPTH_MAX: {EXPRESSION_DEPTH_MAX})"
            return self.fault("bad-template", message, tree.lineno)
        if self.is_part(tree):
            assert self.projector is not None
            assert isinstance(tree, nodes.ExprNode)
            return self.projector.part(tree, self, truth_only=truth_only)
        self._depth += 1
        self.truth_only = truth_only
        try:
            if isinstance(tree, nodes.NameNode | nodes.GetattrNode | nodes.GetitemNode):
                return self._paths(tree, self, optional)
            handler = self._handlers.get(type(tree))
            if handler is None:
                return self.fault("not-allowed", f"{tree.kind} is not allowed in a template", tree.lineno)
            return handler(tree, self)
        finally:
            self._depth -= 1

    def is_part(self, tree: nodes.Node) -> bool:
        return self.projector is not None and self.projector.is_part(tree)

    def expressions(self, trees: Iterable[nodes.Node]) -> list[Expr]:
        return [self.expression(tree) for tree in trees]

    def fault(
        self, code: str, message: str, line: int | None, needle: str | None = None, fix: str | None = None
    ) -> Expr:
        self.faults[Fault(code, message, line or 1, needle, fix)] = None
        return constant(None)

    def unknown(self, code: str, what: str, name: str, line: int, fix: str | None) -> Expr:
        """Record a fault about an unknown name; a very long name is cut in the message."""
        label = name if len(name) <= _NAME_CHARS_MAX else name[:_NAME_CHARS_MAX] + "…"
        return self.fault(code, f'there is no {what} "{label}"', line, name, fix)

    def suggestion(self, name: str, known: Iterable[str], omitted: Mapping[str, str]) -> str | None:
        """What to write instead of an unknown name; None if nothing is similar."""
        if name in omitted:
            return omitted[name]
        # Searching for a similar name takes about a millisecond, so only the first few faults get one.
        if len(self.faults) >= _HINTS_MAX or len(name) > _NAME_CHARS_MAX:
            return None
        from difflib import get_close_matches

        close = get_close_matches(name, list(known), n=1)
        return f'did you mean "{close[0]}"?' if close else None

    def read(self, path: ScopePath, line: int | None, *, optional: bool) -> None:
        self.reads[Read(path, line or 1, optional)] = None

    def text(self, text: str) -> str:
        """The author's text, with the carriage returns that were hidden from the parser."""
        return text if self._cr_stand_in is None else text.replace(self._cr_stand_in, "\r")


def constant(value: JSON) -> Expr:
    return Expr(lambda _scope, _meter: value, constant=True, value=value)
