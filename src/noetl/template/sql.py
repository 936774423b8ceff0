"""A small SQL tokenizer, and the check that every `{{ }}` is in a position where a value can be bound.

The check reports mistakes of the author; values are bound regardless of its result. The tokenizer knows
quotes, comments, words, parameters and statement ends of PostgreSQL, SQLite and DuckDB. Linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from noetl.template import nodes
from noetl.template.context import CompileContext

BindMode: TypeAlias = Literal["value", "name", "list"]

_FILTERS: dict[str, BindMode] = {"sql_ident": "name", "sql_list": "list"}
_BEFORE_NAMES = frozenset({"INTO", "JOIN", "TABLE", "UPDATE"})
_WORD_END = re.compile(r"[\w$]\Z")
_WORD_START = re.compile(r"[\w$]")
_OPENING = re.compile(r"[eE]?['\"`]|\$\w*\$|--|/\*")
_SIGNS = frozenset({"", ",", ";", "(", ")", "AND", "OR", "NOT", "ASC", "DESC", "UNION", "UNION ALL", "WHERE"})
_BIND = "remove the quotes, and concatenate text inside the braces: {{ '%' ~ name ~ '%' }}"
_NAME = "write {{ name | sql_ident }}"
_SIGN = "write SQL keywords and punctuation outside the braces: {% if not loop.last %},{% endif %}"


class SqlPlacement(NamedTuple):
    """A {{ }} and how its value is inserted."""

    expression: nodes.ExprNode
    mode: BindMode  # bound · written as a quoted name · each item bound


class SqlPlacements:
    """Reads the constant text of one template from start to end, and checks the position of each {{ }}."""

    def __init__(self, context: CompileContext) -> None:
        self._context = context
        self._open = ""  # the opening of the current quotes or comment; "": not inside any
        self._brackets: list[str] = []  # the first word in each open bracket; "": none so far
        self._words = ("", "")  # the last two words of the preceding text; the last is "" if a sign follows it
        self._text = ""  # the end of the preceding text; "": none since the last tag
        self.empty = True  # so far there was only white space

    def parts(self, trees: list[nodes.ExprNode]) -> Iterator[str | SqlPlacement]:
        """Texts and tags in order. Quotes that contain exactly one tag are removed."""
        items = joined(trees, self._context)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                following = items[index + 1] if index + 1 < len(items) else ""
                yield self._placed(item, following if isinstance(following, str) else None)
            else:
                after = items[index + 1] if index + 1 < len(items) else None
                beyond = items[index + 2] if index + 2 < len(items) else ""
                if isinstance(after, nodes.ExprNode) and self._is_quoted(item, after, beyond):
                    items[index + 2] = str(beyond)[1:]
                    item = item[:-1]
                self._read(item)
                yield item

    def leave(self) -> None:
        """Call this where a statement of the template starts or ends: the adjacent text is not known."""
        self._text = " "

    def _is_quoted(self, before: str, tag: nodes.ExprNode, after: str | nodes.ExprNode) -> bool:
        if not isinstance(after, str) or not before.endswith("'") or _mode(tag) != "value":
            return False
        if not after.startswith("'") or after.startswith("''"):
            return False
        last = _last(self._open + before)
        return last is not None and last.open and last.start == len(self._open + before) - 1

    def _read(self, text: str) -> None:
        self.empty = self.empty and not text.strip()
        whole = self._open + text
        self._open = ""
        end = 0
        for token in tokens(whole):
            end = token.end
            if token.open:
                opening = _OPENING.match(whole, token.start)
                self._open = opening[0] if opening else "'"
            elif token.kind == "word":
                self._word(whole[token.start : token.end].upper())
            elif token.kind == "sign":
                self._sign(whole[token.start])
            elif token.kind != "comment":
                self._words = (self._words[1], "")
        if whole[end:].strip():
            self._words = (self._words[1], "")
        self._text = text or self._text

    def _word(self, word: str) -> None:
        self._words = (self._words[1], word)
        if self._brackets and not self._brackets[-1]:
            self._brackets[-1] = word

    def _sign(self, sign: str) -> None:
        self._words = (self._words[1], "")
        if sign == "(":
            self._brackets.append("")
        elif sign == ")" and self._brackets:
            self._brackets.pop()

    def _placed(self, expression: nodes.ExprNode, following: str | None) -> SqlPlacement:
        """`following` is the text after the tag; None if another tag follows."""
        mode = _mode(expression)
        label = _label(expression)
        if self._open:
            self._in_quotes(expression, label)
        elif mode == "value" and _is_sign(expression):
            self._fault("sql-not-a-value", expression, "an SQL keyword or punctuation would be bound as text", _SIGN)
        elif self._in_word(mode, following):
            self._fault("sql-in-word", expression, f"{label} is part of a word or of a dotted name", _NAME)
        elif mode != "name" and self._wants_name():
            word = self._words[1]
            self._fault(
                "sql-not-a-value", expression, f"{label} is bound as a value, but a name must follow {word}", _NAME
            )
        self._words = (self._words[1], "")
        self._text = ""
        return SqlPlacement(expression, mode)

    def _in_quotes(self, expression: nodes.ExprNode, label: str) -> None:
        if self._open in ("--", "/*"):
            message, fix = f"{label} is inside an SQL comment", "use a template comment: {# … #}"
        elif self._open in ('"', "`"):
            message, fix = f"{label} is inside the quotes of a name", _NAME
        else:
            message, fix = f"{label} is inside quotes", _BIND
        self._fault("sql-in-quotes", expression, message, fix)

    def _in_word(self, mode: BindMode, following: str | None) -> bool:
        before, dot = self._text, mode != "name"
        if following is None or (not before and not self.empty):
            return True  # two tags with nothing between them
        return bool(
            _WORD_END.search(before)
            or _WORD_START.match(following)
            or (dot and (before.endswith(".") or following.startswith(".")))
        )

    def _wants_name(self) -> bool:
        before, word = self._words
        if word != "FROM":
            return word in _BEFORE_NAMES
        # extract(year FROM …), similar functions, and IS DISTINCT FROM take a value.
        return before != "DISTINCT" and (not self._brackets or self._brackets[-1] in ("SELECT", "WITH"))

    def _fault(self, code: str, expression: nodes.ExprNode, message: str, fix: str) -> None:
        self._context.fault(code, message, expression.lineno, _path(expression) or None, fix)


def joined(trees: list[nodes.ExprNode], context: CompileContext) -> list[str | nodes.ExprNode]:
    """Join texts that are separated only by a comment of the template."""
    items: list[str | nodes.ExprNode] = []
    for expression in trees:
        if not isinstance(expression, nodes.TemplateDataNode):
            items.append(expression)
        elif items and isinstance(items[-1], str):
            items[-1] += context.text(expression.data)
        else:
            items.append(context.text(expression.data))
    return items


def _last(text: str) -> SqlToken | None:
    last = None
    for token in tokens(text):
        last = token
    return last


def _mode(expression: nodes.ExprNode) -> BindMode:
    return _FILTERS.get(expression.name, "value") if isinstance(expression, nodes.FilterNode) else "value"


def _is_sign(expression: nodes.ExprNode) -> bool:
    """Can its value be a keyword or punctuation, such as the comma between the iterations of a loop?"""
    if isinstance(expression, nodes.CondExprNode):
        return any(_is_sign(each) for each in (expression.expr1, expression.expr2) if each is not None)
    return (
        isinstance(expression, nodes.ConstNode)
        and isinstance(expression.value, str)
        and expression.value != ""
        and expression.value.strip().upper() in _SIGNS
    )


def _path(expression: nodes.ExprNode) -> str:
    """A path as the author wrote it; "" for another expression. It does not recurse: trees have any depth."""
    parts: list[str] = []
    while not isinstance(expression, nodes.NameNode):
        if isinstance(expression, nodes.GetattrNode):
            parts.append(expression.attr)
        elif not isinstance(expression, nodes.FilterNode):
            return ""
        if expression.node is None:
            return ""
        expression = expression.node
    return ".".join([expression.name, *reversed(parts)])


def _label(expression: nodes.ExprNode) -> str:
    path = _path(expression)
    return f'"{path[:60]}"' if path else "a value"


SqlTokenKind: TypeAlias = Literal["word", "number", "place", "name", "mark", "sign", "quoted", "comment"]

_NEXT = re.compile(
    r"""
      (?P<quote>['"`])
    | (?P<line>--)
    | (?P<block>/\*)
    | (?P<place>\$\d+)
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\d[\w.]*)
    | (?P<cast>::)
    | (?P<name>(?<![\w:\])]):[^\W\d]\w*)
    | (?P<mark>\?)
    | (?P<sign>[;().\[\]])
    """,
    re.VERBOSE,
)
_COMMENT = re.compile(r"/\*|\*/")
_ESCAPED_END = re.compile(r"\\.|''|'", re.DOTALL)
_HEAD_WORDS = 6  # CREATE OR REPLACE TEMP CONSTRAINT TRIGGER
_MADE_OF_STATEMENTS = frozenset({"FUNCTION", "PROCEDURE", "TRIGGER"})


class SqlToken(NamedTuple):
    """A token of SQL. `open`: the text ends inside it."""

    kind: SqlTokenKind
    start: int
    end: int
    open: bool = False


def tokens(text: str) -> Iterator[SqlToken]:
    """The relevant tokens in order. White space and irrelevant signs are left out."""
    position = 0
    while (match := _NEXT.search(text, position)) is not None:
        start, kind = match.start(), match.lastgroup
        position = match.end()
        if kind == "quote":
            stop = _quote_end(text, start, match[0])
        elif kind == "dollar":
            stop = _after(text, match[0], position)
        elif kind == "line":
            stop = _after(text, "\n", position)
        elif kind == "block":
            stop = _comment_end(text, position)
        elif kind == "word" and match[0] in "eE" and text.startswith("'", position):
            stop = _escaped_end(text, position + 1)
            kind = "quote"
        else:
            if kind != "cast":
                yield SqlToken(_KINDS[str(kind)], start, position)
            continue
        position = len(text) if stop < 0 else stop
        yield SqlToken("comment" if kind in ("line", "block") else "quoted", start, position, open=stop < 0)


_KINDS: dict[str, SqlTokenKind] = {
    "word": "word", "number": "number", "place": "place", "name": "name", "mark": "mark", "sign": "sign",
}  # fmt: skip


def _after(text: str, end: str, position: int) -> int:
    match = text.find(end, position)
    return -1 if match < 0 else match + len(end)


def _quote_end(text: str, start: int, quote: str) -> int:
    """The position after the closing quote; a doubled quote does not close the text."""
    position = start + 1
    while (match := text.find(quote, position)) >= 0:
        if not text.startswith(quote, match + 1):
            return match + 1
        position = match + 2
    return -1


def _escaped_end(text: str, position: int) -> int:
    while (match := _ESCAPED_END.search(text, position)) is not None:
        if match[0] == "'":
            return match.end()
        position = match.end()
    return -1


def _comment_end(text: str, position: int) -> int:
    """PostgreSQL nests comments. For databases that do not, the comment ends later here, which is safe."""
    depth = 1
    while depth and (match := _COMMENT.search(text, position)) is not None:
        depth += 1 if match[0] == "/*" else -1
        position = match.end()
    return -1 if depth else position


class StatementEnds:
    """Detects the end of a statement: a semicolon outside brackets and outside the body of a routine."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._words = 0
        self._creates = False
        self._body = False  # CREATE FUNCTION, PROCEDURE or TRIGGER: the body may contain semicolons
        self._inside = 0  # open BEGIN and CASE
        self._brackets = 0

    def at(self, token: SqlToken, text: str) -> bool:
        if token.kind == "sign":
            sign = text[token.start]
            if sign == ";" and not self._inside and self._brackets <= 0:
                self._begin()
                return True
            self._brackets += {"(": 1, ")": -1}.get(sign, 0)
        elif token.kind == "word":
            self._word(text[token.start : token.end].upper())
        return False

    def _word(self, word: str) -> None:
        self._words += 1
        if self._words == 1:
            self._creates = word == "CREATE"
        elif self._body:
            self._inside += 1 if word in ("BEGIN", "CASE") else -1 if word == "END" and self._inside else 0
        elif self._creates and self._words <= _HEAD_WORDS:
            self._body = word in _MADE_OF_STATEMENTS
