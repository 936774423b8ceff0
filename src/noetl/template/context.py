"""What compiling one template collects: its faults, what it reads and calls, and the parts compiled so far.

It hands each kind of tree to its handler and counts how deep it is; it knows no kind itself but the paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple, Protocol, TypeAlias

from jinja2 import nodes

from noetl.template.limits import EXPRESSION_DEPTH_MAX, Meter
from noetl.template.syntax import Fault
from noetl.template.values import JSON, ScopePath

Scope: TypeAlias = Mapping[str, JSON]
Run: TypeAlias = Callable[[Scope, Meter], JSON]
UNNAMED = "the value"  # what an error calls an expression that is no path


class Read(NamedTuple):
    """A path that a template reads from its scope: the longest part that is known beforehand."""

    path: ScopePath
    line: int  # within the template, from 1
    optional: bool  # a missing value is fine here


class Comparison(NamedTuple):
    """A path that is compared with constants: by ==, != or in."""

    path: ScopePath
    values: tuple[JSON, ...]
    line: int  # within the template, from 1


class Expr(NamedTuple):
    """A compiled expression."""

    run: Run
    label: str = UNNAMED  # how an error calls it
    cost: int = 1  # fuel that it takes in a turn of a loop
    path: ScopePath | None = None  # it is nothing but this path
    constant: bool = False
    value: JSON = None  # of a constant
    boolean: bool = False  # it gives true or false, so its truth need not be asked


Handler: TypeAlias = Callable[[JSON, "CompileContext"], Expr]
PathHandler: TypeAlias = Callable[[nodes.Expr, "CompileContext", bool], Expr]


class Projector(Protocol):
    """Takes parts of a template out of it, to be evaluated elsewhere."""

    def is_part(self, tree: nodes.Node) -> bool: ...

    def part(self, tree: nodes.Expr, context: CompileContext, *, truth_only: bool) -> Expr: ...

    def whole(self) -> Expr: ...


_HINTS_MAX = 10  # faults of one template that get a did-you-mean
_NAME_CHARS_MAX = 60  # longer names are no misspelling of ours


class CompileContext:
    """One template on its way from tree to closures."""

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
        self.projector = projector  # None: the template is evaluated where it stands
        self.truth_only = False  # of the tree that is being compiled: only its truth is asked for
        self.faults: dict[Fault, None] = {}
        self.reads: dict[Read, None] = {}
        self.compared: list[Comparison] = []
        self.calls: set[str] = set()
        self.variables: dict[str, int] = {}  # of {% for %}: name → slot
        self.slots = 0
        self.pattern_work = 0  # units of fuel that compiling its patterns took
        self.used: set[int] = set()  # slots that something reads

    def expression(self, tree: nodes.Node, *, optional: bool = False, truth_only: bool = False) -> Expr:
        """Compile a tree; a fault is noted and stands for a constant, so that the next one is found too."""
        if self._depth >= EXPRESSION_DEPTH_MAX:
            message = (
                f"an expression is nested too deeply (limit EXPRESSION_DEPTH_MAX: {EXPRESSION_DEPTH_MAX})"
            )
            return self.fault("bad-template", message, tree.lineno)
        if self.is_part(tree):
            assert self.projector is not None
            assert isinstance(tree, nodes.Expr)
            return self.projector.part(tree, self, truth_only=truth_only)
        self._depth += 1
        self.truth_only = truth_only
        try:
            if isinstance(tree, nodes.Name | nodes.Getattr | nodes.Getitem):
                return self._paths(tree, self, optional)
            handler = self._handlers.get(type(tree))
            if handler is None:
                return self.fault(
                    "not-allowed", f"{type(tree).__name__} is not allowed in a template", tree.lineno
                )
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
        """Note a name that we do not know; an endless one is cut."""
        label = name if len(name) <= _NAME_CHARS_MAX else name[:_NAME_CHARS_MAX] + "…"
        return self.fault(code, f'there is no {what} "{label}"', line, name, fix)

    def suggestion(self, name: str, known: Iterable[str], omitted: Mapping[str, str]) -> str | None:
        """What to write instead of a name that we do not know."""
        if name in omitted:
            return omitted[name]
        # Looking for a similar name takes a millisecond, which is fine for the first few.
        if len(self.faults) >= _HINTS_MAX or len(name) > _NAME_CHARS_MAX:
            return None
        close = get_close_matches(name, list(known), n=1)
        return f'did you mean "{close[0]}"?' if close else None

    def read(self, path: ScopePath, line: int | None, *, optional: bool) -> None:
        self.reads[Read(path, line or 1, optional)] = None

    def text(self, text: str) -> str:
        """The author's text, with the carriage returns that the parser must not see."""
        return text if self._cr_stand_in is None else text.replace(self._cr_stand_in, "\r")


def constant(value: JSON) -> Expr:
    return Expr(lambda _scope, _meter: value, constant=True, value=value)
