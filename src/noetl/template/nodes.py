"""The syntax tree of a template.

The names and the fields are those of Jinja2's nodes, in the same order: the keys of projected parts are made of them
and are recorded in logs. `jinja.py` makes these nodes from Jinja2's, and `parser.py` from the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from noetl.template.values import JSON


class TemplateStatement(NamedTuple):
    """A {% tag %} that starts a statement."""

    name: str
    line: int


class Node(Struct, gc=False):  # a tree has no cycles
    lineno: int  # within the template, from 1

    @property
    def kind(self) -> str:
        """The name of Jinja2's node."""
        return type(self).__name__.removesuffix("Node")

    def field_values(self) -> Iterator[JSON]:
        """The values of the fields, in order, without the line."""
        return (getattr(self, name) for name in self.__struct_fields__[1:])

    def children(self) -> Iterator[Node]:
        for value in self.field_values():
            if isinstance(value, Node):
                yield value
            elif type(value) is list:
                yield from value


class ExprNode(Node, gc=False):
    pass


class OutputNode(Node, gc=False):
    """Text and `{{ }}` up to the next statement."""

    nodes: list[ExprNode]


class IfNode(Node, gc=False):
    test: ExprNode
    body: list[Node]
    elif_: list[IfNode]
    else_: list[Node]


class ForNode(Node, gc=False):
    target: Node
    iter: ExprNode
    body: list[Node]
    else_: list[Node]
    test: ExprNode | None
    recursive: bool


class OtherStatementNode(Node, gc=False):
    """A statement that no template may contain."""

    name: str  # of Jinja2's node: Assign, Macro, …


class TemplateDataNode(ExprNode, gc=False):
    """The text around the tags."""

    data: str


class ConstNode(ExprNode, gc=False):
    value: JSON


class NameNode(ExprNode, gc=False):
    name: str
    ctx: str = "load"


class GetattrNode(ExprNode, gc=False):
    node: ExprNode
    attr: str
    ctx: str = "load"


class GetitemNode(ExprNode, gc=False):
    node: ExprNode
    arg: ExprNode
    ctx: str = "load"


class SliceNode(ExprNode, gc=False):
    start: ExprNode | None
    stop: ExprNode | None
    step: ExprNode | None


class TupleNode(ExprNode, gc=False):
    items: list[ExprNode]
    ctx: str = "load"


class ListNode(ExprNode, gc=False):
    items: list[ExprNode]


class PairNode(Node, gc=False):
    key: ExprNode
    value: ExprNode


class DictNode(ExprNode, gc=False):
    items: list[PairNode]


class CondExprNode(ExprNode, gc=False):
    test: ExprNode
    expr1: ExprNode
    expr2: ExprNode | None


class KeywordNode(Node, gc=False):
    key: str
    value: ExprNode


class CallNode(ExprNode, gc=False):
    node: ExprNode
    args: list[ExprNode]
    kwargs: list[KeywordNode]
    dyn_args: ExprNode | None = None
    dyn_kwargs: ExprNode | None = None


class FilterNode(ExprNode, gc=False):
    node: ExprNode
    name: str
    args: list[ExprNode]
    kwargs: list[KeywordNode]
    dyn_args: ExprNode | None = None
    dyn_kwargs: ExprNode | None = None


class TestNode(ExprNode, gc=False):
    node: ExprNode
    name: str
    args: list[ExprNode]
    kwargs: list[KeywordNode]
    dyn_args: ExprNode | None = None
    dyn_kwargs: ExprNode | None = None


class OperandNode(Node, gc=False):
    op: str
    expr: ExprNode


class CompareNode(ExprNode, gc=False):
    expr: ExprNode
    ops: list[OperandNode]


class ConcatNode(ExprNode, gc=False):
    nodes: list[ExprNode]


class UnaryExprNode(ExprNode, gc=False):
    node: ExprNode


class NotNode(UnaryExprNode, gc=False):
    pass


class NegNode(UnaryExprNode, gc=False):
    pass


class PosNode(UnaryExprNode, gc=False):
    pass


class BinExprNode(ExprNode, gc=False):
    left: ExprNode
    right: ExprNode


class AndNode(BinExprNode, gc=False):
    pass


class OrNode(BinExprNode, gc=False):
    pass


class AddNode(BinExprNode, gc=False):
    pass


class SubNode(BinExprNode, gc=False):
    pass


class MulNode(BinExprNode, gc=False):
    pass


class DivNode(BinExprNode, gc=False):
    pass


class FloorDivNode(BinExprNode, gc=False):
    pass


class ModNode(BinExprNode, gc=False):
    pass


class PowNode(BinExprNode, gc=False):
    pass
