"""SQL with its values → statements, each with the values that belong to it; nothing is ever pasted.

Values come from `{{ }}`, or from `params`: a list for `$1` and `?` in the text, a mapping for `:name`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from noetl.output import JSON
from noetl.playbook.kinds import Sql
from noetl.template.sql import SqlToken, StatementEnds, tokens

Params: TypeAlias = "list[JSON] | dict[str, JSON] | None"
Style: TypeAlias = Literal["$", "?"]
STATEMENTS_MAX = 1_000  # of one command
_TRANSACTION = frozenset({"BEGIN", "START", "COMMIT", "END", "ABORT"})


class BadSql(Exception):
    """The text and its values do not fit together; the message is for the author, and shows no value."""


class Statement(NamedTuple):
    """One statement: pieces of text, and which value stands between each two of them."""

    pieces: tuple[str, ...]  # one more than places
    places: tuple[int, ...]  # indexes of values
    values: tuple[JSON, ...]
    verb: str  # its first word: "SELECT"

    def text(self, placeholder: Callable[[int], str]) -> str:
        """As the database reads it; a placeholder is made for the index of a value."""
        parts = [self.pieces[0]]
        for place, piece in zip(self.places, self.pieces[1:], strict=True):
            parts += (placeholder(place), piece)
        return "".join(parts).strip()


def statements(sql: Sql, params: Params = None, *, style: Style = "$") -> list[Statement]:
    """What `sql` holds, without empty statements. Raises BadSql.

    `style`: a question mark is a parameter in SQLite and DuckDB, and a sign of its own in PostgreSQL.
    """
    return _Reader(sql, params, style).read()


def one_statement(sql: Sql, params: Params = None, *, style: Style = "$") -> Statement:
    found = statements(sql, params, style=style)
    if len(found) != 1:
        raise BadSql(f"`query` is one statement, and here are {len(found)}; use `command`")
    return found[0]


def refuse_transactions(statement: Statement) -> None:
    """A command is one transaction of its own; savepoints inside it are fine. Raises BadSql."""
    words = statement.pieces[0].upper().split()
    ends = statement.verb in _TRANSACTION or (statement.verb == "ROLLBACK" and "TO" not in words)
    if ends or words[:2] == ["PREPARE", "TRANSACTION"]:
        raise BadSql(f"{statement.verb} is not for a task: a command is one transaction of its own")


def distinct(names: Iterable[str]) -> list[str]:
    """Of two columns with one name neither is lost: the second is `id_2`."""
    made: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in made:
            number += 1
            unique = f"{name}_{number}"
        made[unique] = None
    return list(made)


class _Draft:
    """A statement while it is read."""

    def __init__(self) -> None:
        self.pieces: list[str] = [""]
        self.places: list[int] = []
        self.values: list[JSON] = []
        self.known: dict[str | int, int] = {}  # a parameter that stands twice is one value
        self.verb = ""
        self.empty = True

    def bind(self, value: JSON, known_as: str | int | None = None) -> None:
        if known_as is not None and known_as in self.known:
            place = self.known[known_as]
        else:
            place = len(self.values)
            self.values.append(value)
            if known_as is not None:
                self.known[known_as] = place
        self.places.append(place)
        self.pieces.append("")
        self.empty = False

    def done(self) -> Statement:
        return Statement(tuple(self.pieces), tuple(self.places), tuple(self.values), self.verb)


class _Reader:
    def __init__(self, sql: Sql, params: Params, style: Style) -> None:
        if isinstance(params, list) and sql.values:
            raise BadSql("a list of params does not go with {{ }} in the text; use one of them, or :name")
        self.sql = sql
        self.params = params
        self.style = style
        self.drafts = [_Draft()]
        self.used: set[int] = set()  # of a list of params
        self.marks = 0  # question marks so far

    def read(self) -> list[Statement]:
        ends = StatementEnds()
        for index, piece in enumerate(self.sql.text):
            if index:
                self.drafts[-1].bind(self.sql.values[index - 1])
            self._piece(piece, ends)
        if isinstance(self.params, list) and len(self.used) < len(self.params):
            unused = next(place for place in range(len(self.params)) if place not in self.used)
            raise BadSql(f"params has {len(self.params)} values, and nothing in the text takes ${unused + 1}")
        found = [draft.done() for draft in self.drafts if not draft.empty]
        if len(found) > STATEMENTS_MAX:
            raise BadSql(f"there are too many statements (limit STATEMENTS_MAX: {STATEMENTS_MAX:,})")
        if not found:
            raise BadSql("there is no statement in the text")
        return found

    def _piece(self, piece: str, ends: StatementEnds) -> None:
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
            for value, known_as in self._value(token, piece):
                draft.pieces[-1] += piece[copied : token.start]
                draft.bind(value, known_as)
                copied = token.end
        self.drafts[-1].pieces[-1] += piece[copied:]

    def _value(self, token: SqlToken, piece: str) -> Iterator[tuple[JSON, str | int | None]]:
        """The value that the author's own parameter stands for; nothing: it is none."""
        word = piece[token.start : token.end]
        if token.kind == "place":
            yield self._listed(int(word[1:]) - 1, word), word
        elif token.kind == "mark" and self.style == "?":
            self.marks += 1
            yield self._listed(self.marks - 1, "?"), None
        elif token.kind == "name" and isinstance(self.params, dict):
            if word[1:] not in self.params:
                raise BadSql(f'"{word}" stands in the text, and params has no "{word[1:]}"')
            yield self.params[word[1:]], word

    def _listed(self, place: int, word: str) -> JSON:
        if not isinstance(self.params, list):
            if self.params is None and not self.sql.values:
                raise BadSql(f'"{word}" stands in the text, and there are no params')
            raise BadSql(f'"{word}" takes its value from a list of params; write {{{{ }}}} or :name here')
        if not 0 <= place < len(self.params):
            raise BadSql(f'"{word}" stands in the text, and params has {len(self.params)} values')
        self.used.add(place)
        return self.params[place]
