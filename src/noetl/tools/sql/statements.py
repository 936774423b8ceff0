"""SQL text and its values → statements with bound values. A value is never inserted into the text.

Values come from `{{ }}` or from `params`: a list for `$1` and `?` in the text, a mapping for `:name`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from noetl.output import JSON
from noetl.playbook.kinds import Sql
from noetl.template.sql import SqlToken, StatementEnds, tokens
from noetl.tools.errors import InvalidInput, TooLarge

Params: TypeAlias = "list[JSON] | dict[str, JSON] | None"
Style: TypeAlias = Literal["$", "?"]
STATEMENTS_MAX = 1_000  # of one command
_TRANSACTION = frozenset({"BEGIN", "START", "COMMIT", "END", "ABORT"})


class Statement(NamedTuple):
    """One statement: pieces of text with a value between each two of them."""

    pieces: tuple[str, ...]  # one more than indexes
    indexes: tuple[int, ...]  # into `values`; a value can occur more than once
    values: tuple[JSON, ...]
    verb: str  # the first word: "SELECT"

    def text(self, placeholder: Callable[[int], str]) -> str:
        """The SQL for the database; `placeholder` makes the placeholder for the index of a value."""
        parts = [self.pieces[0]]
        for index, piece in zip(self.indexes, self.pieces[1:], strict=True):
            parts += (placeholder(index), piece)
        return "".join(parts).strip()


class StatementResult(NamedTuple):
    """The result of one statement."""

    rows: list[dict[str, JSON]] | None  # None: the statement returns no rows
    rowcount: int | None  # rows returned or changed; None: the database does not report it


def parse_statements(sql: Sql, params: Params = None, *, style: Style = "$", places: bool = True) -> list[Statement]:
    """The statements in `sql`, without empty ones. Raises InvalidInput.

    `style`: a question mark is a parameter in SQLite and DuckDB, and an operator in PostgreSQL. `places`: `$1` is a
    parameter; in Snowflake it is a column of a file.
    """
    return _Parser(sql, params, style, places=places).parse()


def parse_statement(sql: Sql, params: Params = None, *, style: Style = "$", places: bool = True) -> Statement:
    found = parse_statements(sql, params, style=style, places=places)
    if len(found) != 1:
        raise InvalidInput(f"`query` must be one statement, but has {len(found)}; use `command` for several")
    return found[0]


def refuse_transactions(statement: Statement) -> None:
    """A command is one transaction, which SQL must not end; savepoints are allowed. Raises InvalidInput."""
    words = statement.pieces[0].upper().split()
    ends = statement.verb in _TRANSACTION or (statement.verb == "ROLLBACK" and "TO" not in words)
    if ends or words[:2] == ["PREPARE", "TRANSACTION"]:
        raise InvalidInput(f"{statement.verb} is not allowed in a task: a command always runs in one transaction")


def unique_names(names: Iterable[str]) -> list[str]:
    """Column names as keys of a row: if two columns have the same name `id`, the second becomes `id_2`."""
    made: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in made:
            number += 1
            unique = f"{name}_{number}"
        made[unique] = None
    return list(made)


class RowLimit:
    """The option `spec.max_rows`."""

    def __init__(self, spec: dict[str, JSON]) -> None:
        limit = spec.get("max_rows")
        self.max = min(max(limit, 0), sys.maxsize - 1) if isinstance(limit, int) else None

    def check(self, count: int) -> None:
        """Raises TooLarge."""
        if self.max is not None and count > self.max:
            raise TooLarge(f"the statement returns more rows than spec.max_rows allows ({self.max:,})")


class _Draft:
    """A statement while it is being parsed."""

    def __init__(self) -> None:
        self.pieces: list[str] = [""]
        self.indexes: list[int] = []
        self.values: list[JSON] = []
        self.known: dict[str | int, int] = {}  # a parameter that is used twice is one value
        self.verb = ""
        self.empty = True

    def bind(self, value: JSON, name: str | int | None = None) -> None:
        if name is not None and name in self.known:
            index = self.known[name]
        else:
            index = len(self.values)
            self.values.append(value)
            if name is not None:
                self.known[name] = index
        self.indexes.append(index)
        self.pieces.append("")
        self.empty = False

    def statement(self) -> Statement:
        return Statement(tuple(self.pieces), tuple(self.indexes), tuple(self.values), self.verb)


class _Parser:
    def __init__(self, sql: Sql, params: Params, style: Style, *, places: bool) -> None:
        if isinstance(params, list) and sql.values:
            raise InvalidInput("`params` is a list and the SQL contains {{ }}; use only one of them, or :name")
        self.sql = sql
        self.params = params
        self.style = style
        self.places = places
        self.drafts = [_Draft()]
        self.used: set[int] = set()  # indexes into a list of params
        self.marks = 0  # question marks so far

    def parse(self) -> list[Statement]:
        ends = StatementEnds()
        for index, piece in enumerate(self.sql.text):
            if index:
                self.drafts[-1].bind(self.sql.values[index - 1])
            self._parse_piece(piece, ends)
        if isinstance(self.params, list) and len(self.used) < len(self.params):
            unused = next(index for index in range(len(self.params)) if index not in self.used)
            raise InvalidInput(f"`params` has {len(self.params)} values, but the SQL does not use value ${unused + 1}")
        found = [draft.statement() for draft in self.drafts if not draft.empty]
        if len(found) > STATEMENTS_MAX:
            raise InvalidInput(f"the SQL has too many statements (limit STATEMENTS_MAX: {STATEMENTS_MAX:,})")
        if not found:
            raise InvalidInput("the SQL contains no statement")
        return found

    def _parse_piece(self, piece: str, ends: StatementEnds) -> None:
        copied = 0
        for token in tokens(piece):
            draft = self.drafts[-1]
            if ends.at(token, piece):
                draft.pieces[-1] += piece[copied : token.start]
                self.drafts.append(_Draft())
                copied = token.end
                continue
            if token.kind == "comment":
                continue
            draft.empty = False
            if token.kind == "word":
                draft.verb = draft.verb or piece[token.start : token.end].upper()
            for value, name in self._param(token, piece):
                draft.pieces[-1] += piece[copied : token.start]
                draft.bind(value, name)
                copied = token.end
        self.drafts[-1].pieces[-1] += piece[copied:]

    def _param(self, token: SqlToken, piece: str) -> Iterator[tuple[JSON, str | int | None]]:
        """The value of a parameter in the text; yields nothing if the token is not a parameter."""
        word = piece[token.start : token.end]
        if token.kind == "place" and self.places:
            yield self._from_list(int(word[1:]) - 1, word), word
        elif token.kind == "mark" and self.style == "?":
            self.marks += 1
            yield self._from_list(self.marks - 1, "?"), None
        elif token.kind == "name" and isinstance(self.params, dict):
            if word[1:] not in self.params:
                raise InvalidInput(f'the SQL uses "{word}", but `params` has no "{word[1:]}"')
            yield self.params[word[1:]], word

    def _from_list(self, index: int, word: str) -> JSON:
        if not isinstance(self.params, list):
            if self.params is None and not self.sql.values:
                raise InvalidInput(f'the SQL uses "{word}", but the task has no `params`')
            raise InvalidInput(f'the SQL uses "{word}", which needs a list of `params`; write {{{{ }}}} or :name')
        if not 0 <= index < len(self.params):
            raise InvalidInput(f'the SQL uses "{word}", but `params` has {len(self.params)} values')
        self.used.add(index)
        return self.params[index]
