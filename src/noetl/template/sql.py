"""A small SQL tokenizer, and the check that every `{{ }}` stands where a value can be bound.

The check reports mistakes of the author; values are bound regardless of its result. The tokenizer knows
quotes, comments, words, parameters and statement ends of PostgreSQL, SQLite and DuckDB. Linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from jinja2 import nodes

from noetl.template.context import Compilation

How: TypeAlias = Literal["value", "name", "list"]

_FILTERS: dict[str, How] = {"sql_ident": "name", "sql_list": "list"}
_BEFORE_NAMES = frozenset({"INTO", "JOIN", "TABLE", "UPDATE"})
_WORD_END = re.compile(r"[\w$]\Z")
_WORD_START = re.compile(r"[\w$]")
_OPENING = re.compile(r"[eE]?['\"`]|\$\w*\$|--|/\*")
_SIGNS = frozenset({"", ",", ";", "(", ")", "AND", "OR", "NOT", "ASC", "DESC", "UNION", "UNION ALL", "WHERE"})
_BIND = "a value is bound: leave the quotes out, and join text inside: {{ '%' ~ name ~ '%' }}"
_NAME = "write {{ name | sql_ident }}"
_SIGN = "write words and signs of SQL outside: {% if not loop.last %},{% endif %}"


class SqlPlacement(NamedTuple):
    """A {{ }} and what becomes of it."""

    tree: nodes.Expr
    how: How  # bound · written as a quoted name · each item bound


class SqlPlacements:
    """Follows the constant text of one template from its begin to its end."""

    def __init__(self, notes: Compilation) -> None:
        self._notes = notes
        self._open = ""  # what opened the quotes or the comment that we are in; "": neither
        self._brackets: list[str] = []  # the first word in each bracket that is open; "": none so far
        self._words = ("", "")  # the last two of the text before, the last one only if nothing follows it
        self._text = ""  # the end of the text before; "": none since the last tag
        self.empty = True  # there was no text so far, but white space

    def parts(self, trees: list[nodes.Expr]) -> Iterator[str | SqlPlacement]:
        """Texts and tags in order; quotes around nothing but one tag are taken away."""
        items = _joined(trees, self._notes)
        for index, item in enumerate(items):
            if not isinstance(item, str):
                following = items[index + 1] if index + 1 < len(items) else ""
                yield self._placed(item, following if isinstance(following, str) else None)
            else:
                after = items[index + 1] if index + 1 < len(items) else None
                beyond = items[index + 2] if index + 2 < len(items) else ""
                if isinstance(after, nodes.Expr) and self._is_quoted(item, after, beyond):
                    items[index + 2] = str(beyond)[1:]
                    item = item[:-1]
                self._read(item)
                yield item

    def leave(self) -> None:
        """A statement of the template begins or ends: what stands next to it is not known."""
        self._text = " "

    def _is_quoted(self, before: str, tag: nodes.Expr, after: str | nodes.Expr) -> bool:
        if not isinstance(after, str) or not before.endswith("'") or _how(tag) != "value":
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

    def _placed(self, tree: nodes.Expr, following: str | None) -> SqlPlacement:
        """`following`: the text behind it; None: another tag."""
        how = _how(tree)
        shown = _shown(tree)
        if self._open:
            self._in_quotes(tree, shown)
        elif how == "value" and _is_sign(tree):
            self._tell("sql-not-a-value", tree, "a sign or a word of SQL would be bound as text", _SIGN)
        elif self._in_word(how, following):
            self._tell("sql-in-word", tree, f"{shown} is a part of a word or of a dotted name", _NAME)
        elif how != "name" and self._wants_name():
            word = self._words[1]
            self._tell("sql-not-a-value", tree, f"{shown} is bound, and after {word} stands a name", _NAME)
        self._words = (self._words[1], "")
        self._text = ""
        return SqlPlacement(tree, how)

    def _in_quotes(self, tree: nodes.Expr, shown: str) -> None:
        if self._open in ("--", "/*"):
            message, fix = f"{shown} stands in a comment of SQL", "use {# a comment of the template #}"
        elif self._open in ('"', "`"):
            message, fix = f"{shown} stands in the quotes of a name", _NAME
        else:
            message, fix = f"{shown} stands inside quotes", _BIND
        self._tell("sql-in-quotes", tree, message, fix)

    def _in_word(self, how: How, following: str | None) -> bool:
        before, dot = self._text, how != "name"
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
        # extract(year FROM …) and its kin take a value, and so does IS DISTINCT FROM.
        return before != "DISTINCT" and (not self._brackets or self._brackets[-1] in ("SELECT", "WITH"))

    def _tell(self, code: str, tree: nodes.Expr, message: str, fix: str) -> None:
        self._notes.fault(code, message, tree.lineno, _path(tree) or None, fix)


def _joined(trees: list[nodes.Expr], notes: Compilation) -> list[str | nodes.Expr]:
    """Texts that only a comment of the template separates are one."""
    items: list[str | nodes.Expr] = []
    for tree in trees:
        if not isinstance(tree, nodes.TemplateData):
            items.append(tree)
        elif items and isinstance(items[-1], str):
            items[-1] += notes.text(tree.data)
        else:
            items.append(notes.text(tree.data))
    return items


def _last(text: str) -> SqlToken | None:
    last = None
    for token in tokens(text):
        last = token
    return last


def _how(tree: nodes.Expr) -> How:
    return _FILTERS.get(tree.name, "value") if isinstance(tree, nodes.Filter) else "value"


def _is_sign(tree: nodes.Expr) -> bool:
    """Is it, or may it be, one of the signs that authors put between the turns of a loop?"""
    if isinstance(tree, nodes.CondExpr):
        return any(_is_sign(each) for each in (tree.expr1, tree.expr2) if each is not None)
    return (
        isinstance(tree, nodes.Const)
        and isinstance(tree.value, str)
        and tree.value != ""
        and tree.value.strip().upper() in _SIGNS
    )


def _path(tree: nodes.Expr) -> str:
    """The author's words for a path; "": it is none. Trees have any depth."""
    parts: list[str] = []
    while not isinstance(tree, nodes.Name):
        if isinstance(tree, nodes.Getattr):
            parts.append(tree.attr)
        elif not isinstance(tree, nodes.Filter):
            return ""
        if tree.node is None:
            return ""
        tree = tree.node
    return ".".join([tree.name, *reversed(parts)])


def _shown(tree: nodes.Expr) -> str:
    path = _path(tree)
    return f'"{path[:60]}"' if path else "a value"


Kind: TypeAlias = Literal["word", "number", "place", "name", "mark", "sign", "quoted", "comment"]

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
    """A part of SQL. `open`: the text ended before it did."""

    kind: Kind
    start: int
    end: int
    open: bool = False


def tokens(text: str) -> Iterator[SqlToken]:
    """What matters, in order. White space and signs without a meaning for us are left out."""
    place = 0
    while (found := _NEXT.search(text, place)) is not None:
        start, kind = found.start(), found.lastgroup
        place = found.end()
        if kind == "quote":
            stop = _quote_end(text, start, found[0])
        elif kind == "dollar":
            stop = _after(text, found[0], place)
        elif kind == "line":
            stop = _after(text, "\n", place)
        elif kind == "block":
            stop = _comment_end(text, place)
        elif kind == "word" and found[0] in "eE" and text.startswith("'", place):
            stop = _escaped_end(text, place + 1)
            kind = "quote"
        else:
            if kind != "cast":
                yield SqlToken(_KINDS[str(kind)], start, place)
            continue
        place = len(text) if stop < 0 else stop
        yield SqlToken("comment" if kind in ("line", "block") else "quoted", start, place, open=stop < 0)


_KINDS: dict[str, Kind] = {
    "word": "word", "number": "number", "place": "place", "name": "name", "mark": "mark", "sign": "sign",
}  # fmt: skip


def _after(text: str, end: str, place: int) -> int:
    found = text.find(end, place)
    return -1 if found < 0 else found + len(end)


def _quote_end(text: str, start: int, quote: str) -> int:
    """Behind the closing quote; a doubled one does not close."""
    place = start + 1
    while (found := text.find(quote, place)) >= 0:
        if not text.startswith(quote, found + 1):
            return found + 1
        place = found + 2
    return -1


def _escaped_end(text: str, place: int) -> int:
    while (found := _ESCAPED_END.search(text, place)) is not None:
        if found[0] == "'":
            return found.end()
        place = found.end()
    return -1


def _comment_end(text: str, place: int) -> int:
    """PostgreSQL nests comments. Where others do not, we wait longer than they, which is safe."""
    depth = 1
    while depth and (found := _COMMENT.search(text, place)) is not None:
        depth += 1 if found[0] == "/*" else -1
        place = found.end()
    return -1 if depth else place


class Ends:
    """Sees where a statement ends: at a semicolon, but not inside brackets or the body of a routine."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._words = 0
        self._creates = False
        self._body = False  # CREATE FUNCTION, PROCEDURE or TRIGGER: semicolons may stand inside
        self._inside = 0  # BEGIN and CASE that no END has closed
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
