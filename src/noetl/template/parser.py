"""A quick parser for common templates: text, and `{{ }}` in one line with names, numbers, plain strings and operators.

It makes the same trees as Jinja2, which reads everything else, also the templates with a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from noetl.template import nodes
from noetl.template.limits import NESTING_MAX, TOKENS_MAX

T = TypeVar("T")
_PATHS: Final = re.compile(r"\{\{ ?([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*) ?\}\}")
_OTHER: Final = re.compile(r"[\r\x1c-\x1f\x85\u2028\u2029]|\{[%#]|\{\{[-+]|[-+]\}\}")
_TOKEN: Final = re.compile(
    r"[ \t]*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?!\w)"
    r"|(?P<integer>0|[1-9][0-9]*)(?![\w.])"
    r"|(?<!\.)(?P<float>[0-9]+\.[0-9]+)(?![\w.])"
    r"|(?P<string>'[ -&(-\[\]-~]*'|\"[ !#-\[\]-~]*\")"
    r"|(?P<end>\}\})"
    r"|(?P<operator>//|\*\*|==|!=|>=|<=|[-+/*%~\[\](){}><=.:|,]))"
)
_OPENING: Final = {"(": ")", "[": "]", "{": "}"}
_NESTING: Final = ("(", "[", "{", "+", "-", "not", "else")
_CONSTANTS: Final = {"true": True, "false": False, "none": None, "True": True, "False": False, "None": None}
_KEYWORDS: Final = frozenset({"and", "or", "not", "in", "is", "if", "else"})
_COMPARISONS: Final = {
    "==": "eq", "!=": "ne", ">": "gt", ">=": "gteq", "<": "lt", "<=": "lteq", "in": "in", "not": "notin"
}  # fmt: skip
_NOT, _COMPARED = 3, 4
_LEVELS: Final = {  # an operator with a higher level binds tighter
    "or": 1, "and": 2, **dict.fromkeys(_COMPARISONS, _COMPARED),
    "+": 5, "-": 5, "~": 6, "*": 7, "/": 7, "//": 7, "%": 7, "**": 8,
}  # fmt: skip
_OPERATIONS: Final[dict[str, type[nodes.BinExprNode]]] = {
    "or": nodes.OrNode,
    "and": nodes.AndNode,
    "+": nodes.AddNode,
    "-": nodes.SubNode,
    "*": nodes.MulNode,
    "/": nodes.DivNode,
    "//": nodes.FloorDivNode,
    "%": nodes.ModNode,
    "**": nodes.PowNode,
}


class _Uncommon(Exception):
    """Jinja2 has to read the template."""


def parse_common(source: str) -> list[nodes.Node] | None:
    """The tree of a template; None: Jinja2 has to read it."""
    if len(source) > TOKENS_MAX or _OTHER.search(source):  # a token has at least one character
        return None
    try:
        parts = _paths_only(source) or _parts(source)
    except (_Uncommon, RecursionError):
        return None
    return [nodes.OutputNode(1, parts)] if parts else []


def _paths_only(source: str) -> list[nodes.ExprNode] | None:
    """The parts of a template whose every `{{ }}` is a path; None: it has to be parsed."""
    pieces = _PATHS.split(source)
    if len(pieces) == 1:
        return None
    parts: list[nodes.ExprNode] = []
    line = 1
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            if "{{" in piece or piece.endswith("{"):  # `{{{ a }}}` begins a mapping
                return None
            if piece:
                parts.append(nodes.TemplateDataNode(line, piece))
                line += piece.count("\n")
            continue
        first, *names = piece.split(".")
        if first in _CONSTANTS or first == "not":
            return None
        made: nodes.ExprNode = nodes.NameNode(line, first)
        for name in names:
            made = nodes.GetattrNode(line, made, name)
        parts.append(made)
    return parts


def _parts(source: str) -> list[nodes.ExprNode]:
    parts: list[nodes.ExprNode] = []
    at, line = 0, 1
    while (begin := source.find("{{", at)) >= 0:
        if begin > at:
            parts.append(nodes.TemplateDataNode(line, source[at:begin]))
            line += source.count("\n", at, begin)
        expression = _Expression(line)
        at = expression.scan(source, begin + 2)
        parts.append(expression.parse())
    if at < len(source):
        parts.append(nodes.TemplateDataNode(line, source[at:]))
    return parts


class _Expression:
    """The expression of one `{{ }}`: its tokens, and a recursive-descent parser for them.

    The kind of a token is "name", "integer", "float", "string" or "end"; that of a keyword or an operator is its text.
    """

    def __init__(self, line: int) -> None:
        self._line = line
        self._kinds: list[str] = []
        self._texts: list[str] = []
        self._at = 0  # of the next token

    def scan(self, source: str, at: int) -> int:
        """Collect the tokens up to `}}`; the offset behind it."""
        kinds, texts = self._kinds, self._texts
        open_brackets: list[str] = []
        match = _TOKEN.match
        while (found := match(source, at)) is not None:
            at = found.end()
            kind: str = found.lastgroup  # type: ignore[assignment]  # one of the groups has matched
            text = found[kind]
            if kind == "end":
                if not open_brackets:
                    kinds.append(kind)
                    texts.append(text)
                    return at
                at -= 1
                kind, text = "operator", "}"
            if kind == "operator":
                kind = text
                if text in _OPENING:
                    open_brackets.append(_OPENING[text])
                elif text in ")]}" and (not open_brackets or open_brackets.pop() != text):
                    raise _Uncommon
            elif text in _KEYWORDS:
                kind = text
            kinds.append(kind)
            texts.append(text)
        raise _Uncommon

    def parse(self) -> nodes.ExprNode:
        if sum(map(self._kinds.count, _NESTING)) > NESTING_MAX:
            raise _Uncommon
        made = self._tuple("end")
        if made is None or self._kinds[self._at] != "end":
            raise _Uncommon
        return made

    def _skip(self, kind: str) -> bool:
        """Skip a token if it has this kind."""
        if self._kinds[self._at] != kind:
            return False
        self._at += 1
        return True

    def _expect(self, kind: str) -> str:
        """The text of the next token, which must have this kind."""
        if self._kinds[self._at] != kind:
            raise _Uncommon
        self._at += 1
        return self._texts[self._at - 1]

    def _tuple(self, end: str) -> nodes.ExprNode | None:
        """Expressions separated by commas; one without a comma is not a tuple. None: there is none."""
        if self._kinds[self._at] == end:
            return None
        first = self._choice()
        if self._kinds[self._at] != ",":
            return first
        items = [first]
        while self._skip(",") and self._kinds[self._at] != end:
            items.append(self._choice())
        return nodes.TupleNode(self._line, items)

    def _choice(self) -> nodes.ExprNode:
        made = self._operation(1)
        while self._skip("if"):
            test = self._operation(1)
            made = nodes.CondExprNode(self._line, test, made, self._choice() if self._skip("else") else None)
        return made

    def _operation(self, lowest: int) -> nodes.ExprNode:
        """Operators of at least this level. All of them, also `**`, group from the left."""
        if lowest <= _NOT and self._skip("not"):
            made: nodes.ExprNode = nodes.NotNode(self._line, self._operation(_NOT))
        else:
            made = self._signed(filters=True)
        while (level := _LEVELS.get(kind := self._kinds[self._at], 0)) >= lowest:
            if level == _COMPARED:
                made = self._comparison(made)
            elif kind == "~":
                texts = [made]
                while self._skip("~"):
                    texts.append(self._operation(level + 1))
                made = nodes.ConcatNode(self._line, texts)
            else:
                self._at += 1
                made = _OPERATIONS[kind](self._line, made, self._operation(level + 1))
        return made

    def _comparison(self, left: nodes.ExprNode) -> nodes.ExprNode:
        operands: list[nodes.OperandNode] = []
        while (sign := _COMPARISONS.get(self._kinds[self._at])) is not None:
            self._at += 1
            if sign == "notin":
                self._expect("in")
            operands.append(nodes.OperandNode(self._line, sign, self._operation(_COMPARED + 1)))
        return nodes.CompareNode(self._line, left, operands)

    def _signed(self, *, filters: bool) -> nodes.ExprNode:
        """A value with its sign, its subscripts, and its filters and tests."""
        if self._skip("-"):
            made: nodes.ExprNode = nodes.NegNode(self._line, self._signed(filters=False))
        elif self._skip("+"):
            made = nodes.PosNode(self._line, self._signed(filters=False))
        else:
            made = self._subscripted(self._value())
        return self._filtered(made) if filters else made

    def _value(self) -> nodes.ExprNode:
        kind, text = self._kinds[self._at], self._texts[self._at]
        self._at += 1
        if kind == "name":
            return (
                nodes.ConstNode(self._line, _CONSTANTS[text])
                if text in _CONSTANTS
                else nodes.NameNode(self._line, text)
            )
        if kind == "integer":
            return nodes.ConstNode(self._line, int(text))
        if kind == "float":
            return nodes.ConstNode(self._line, float(text))
        if kind == "string":
            value = text[1:-1]
            while self._kinds[self._at] == "string":
                value += self._expect("string")[1:-1]
            return nodes.ConstNode(self._line, value)
        if kind == "(":
            inner = self._tuple(")") or nodes.TupleNode(self._line, [])
            self._expect(")")
            return inner
        if kind == "[":
            return nodes.ListNode(self._line, self._items("]", self._choice))
        if kind == "{":
            return nodes.DictNode(self._line, self._items("}", self._pair))
        raise _Uncommon

    def _items(self, end: str, item: Callable[[], T]) -> list[T]:
        """Items separated by commas, up to a bracket."""
        items: list[T] = []
        while not self._skip(end):
            if items:
                self._expect(",")
                if self._skip(end):
                    break
            items.append(item())
        return items

    def _pair(self) -> nodes.PairNode:
        key = self._choice()
        self._expect(":")
        return nodes.PairNode(self._line, key, self._choice())

    def _subscripted(self, made: nodes.ExprNode) -> nodes.ExprNode:
        while True:
            if self._skip("."):
                made = nodes.GetattrNode(self._line, made, self._expect("name"))
            elif self._skip("["):
                made = nodes.GetitemNode(self._line, made, self._choice())
                self._expect("]")
            elif self._skip("("):
                made = nodes.CallNode(self._line, made, *self._arguments())
            else:
                return made

    def _filtered(self, made: nodes.ExprNode) -> nodes.ExprNode:
        while True:
            if self._skip("|"):
                made = nodes.FilterNode(self._line, made, self._expect("name"), *self._optional_arguments())
            elif self._skip("is"):
                made = self._test(made)
            elif self._kinds[self._at] in ("(", "."):  # a call of a filtered value, or a filter with a dot in its name
                raise _Uncommon
            else:
                return made

    def _test(self, tested: nodes.ExprNode) -> nodes.ExprNode:
        negated = self._skip("not")
        name = self._expect("in" if self._kinds[self._at] == "in" else "name")
        if self._kinds[self._at] in ("name", "integer", "float", "string", "[", "{"):
            made = nodes.TestNode(self._line, tested, name, [self._subscripted(self._value())], [])
        elif self._kinds[self._at] in ("if", "is", "in", "not"):  # Jinja2 takes it for an argument
            raise _Uncommon
        else:
            made = nodes.TestNode(self._line, tested, name, *self._optional_arguments())
        return nodes.NotNode(self._line, made) if negated else made

    def _optional_arguments(self) -> tuple[list[nodes.ExprNode], list[nodes.KeywordNode]]:
        return self._arguments() if self._skip("(") else ([], [])

    def _arguments(self) -> tuple[list[nodes.ExprNode], list[nodes.KeywordNode]]:
        """The arguments behind an opening parenthesis."""
        positional: list[nodes.ExprNode] = []
        named: list[nodes.KeywordNode] = []
        for made in self._items(")", self._argument):
            if isinstance(made, nodes.KeywordNode):
                named.append(made)
            elif named:
                raise _Uncommon
            else:
                positional.append(made)
        return positional, named

    def _argument(self) -> nodes.ExprNode | nodes.KeywordNode:
        if self._kinds[self._at + 1] == "=":
            name = self._expect("name")
            self._at += 1
            return nodes.KeywordNode(self._line, name, self._choice())
        return self._choice()
