"""A shell script with values: each value becomes a variable, and the script refers to it, quoted for its position.

The shell never parses a value as a part of the script, even if this module mistakes the position: then the
reference is quoted wrongly, which is visible, and not dangerous. Only the body of a here-document with a quoted
delimiter has no variables; values are inserted there as text, which must not end the here-document.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from noetl.output import JSON
from noetl.playbook.kinds import Shell
from noetl.template.limits import json_text
from noetl.tools.errors import InvalidInput

NAME = "noetl_value_"  # of the variables, followed by a number
# Where a position is: commands (also in $( ) and ( )), "…", '…', `…`, ${…}, $((…)), brackets in it, a comment,
# a here-document with variables, one without.
Place: TypeAlias = Literal["plain", '"', "'", "`", "${", "$((", "(", "#", "<<", "<<'"]
_SPECIAL = re.compile(r"[\\'\"`$(){}#<\n]")
_HEREDOC = re.compile(r"<<(?P<tabs>-?)[ \t]*(?P<word>(?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_OPENINGS: tuple[tuple[str, Place], ...] = (("$((", "$(("), ("$(", "plain"), ("${", "${"))
_INTEGER = re.compile(r"-?[0-9]{1,30}")
_BEFORE_COMMENT = " \t\n;&|()`"


class Heredoc(NamedTuple):
    delimiter: str
    tabs: bool  # tabs before the delimiter are ignored
    quoted: bool  # there are no variables in the body


def script_with_variables(script: Shell) -> tuple[str, dict[str, str]]:
    """The script for the shell, and its variables. Raises InvalidInput."""
    if not script.values:
        return script.text[0], {}
    reader = _Reader()
    reader.read(script.text[0])
    for value, text in zip(script.values, script.text[1:], strict=True):
        reader.insert(value)
        reader.read(text)
    return "".join(reader.out), reader.variables


class _Reader:
    """Reads the author's text from start to end, and knows in which quotes and brackets the position is."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.variables: dict[str, str] = {}
        self._places: list[Place] = ["plain"]
        self._pending: list[Heredoc] = []  # their bodies begin on the next line
        self._line = ""  # of a here-document, up to the position
        self._filled = False  # the line contains a value
        self._before = "\n"  # the last character

    def insert(self, value: JSON) -> None:
        place = self._places[-1]
        if place == "<<'":
            self._insert_text(json_text(value))
        elif place == "$((" or (place == "(" and "$((" in self._places):
            if not _INTEGER.fullmatch(json_text(value)):
                raise InvalidInput("a value inside $(( )) of `sh` is not a whole number")
            self.out.append(self._variable(json_text(value)))
        elif self._in_double_quotes():
            self.out.append(self._variable(json_text(value)))
        elif place == "'":
            self.out.append(f"'\"{self._variable(json_text(value))}\"'")
        else:
            words = value if isinstance(value, list) else [value]
            self.out.append(" ".join(f'"{self._variable(json_text(word))}"' for word in words))
        self._before = "x"
        if place == "<<":
            self._filled, self._line = True, self._line + "\0"  # never equal to a delimiter

    def _variable(self, text: str) -> str:
        name = f"{NAME}{len(self.variables) + 1}"
        self.variables[name] = text
        return f"${{{name}}}"

    def _insert_text(self, text: str) -> None:
        self._filled = True
        *lines, last = text.split("\n")
        for line in lines:
            self._line += line
            self._refuse_delimiter()
            self._line = ""
        self._line += last
        self.out.append(text)

    def _refuse_delimiter(self) -> None:
        if self._filled and self._ends_heredoc():
            heredoc = f'the here-document "{self._pending[0].delimiter}"'
            raise InvalidInput(f"a value in `sh` would end {heredoc}; pass it in `env` or `stdin`")

    def _ends_heredoc(self) -> bool:
        heredoc = self._pending[0]
        return (self._line.lstrip("\t") if heredoc.tabs else self._line) == heredoc.delimiter

    def _in_double_quotes(self) -> bool:
        """Inside "…" or a here-document, perhaps with ${…} around the position."""
        for place in reversed(self._places):
            if place != "${":
                return place in ('"', "<<")
        return False

    def read(self, text: str) -> None:
        self.out.append(text)
        position = 0
        while position < len(text):
            if self._places[-1] in ("<<", "<<'"):
                position = self._read_heredoc(text, position)
                continue
            found = _SPECIAL.search(text, position)
            if found is None:
                self._before = text[-1]
                return
            if found.start() > position:
                self._before = text[found.start() - 1]
            position = self._step(text, found.start())
            self._before = text[position - 1]

    def _step(self, text: str, at: int) -> int:
        """Read one special character, or more; returns the position after it."""
        sign, place = text[at], self._places[-1]
        if place in ("'", "#"):
            if sign == ("\n" if place == "#" else "'"):
                self._places.pop()
                return at if place == "#" else at + 1
            return at + 1
        if sign == "\\":
            return min(at + 2, len(text))
        if sign == "$":
            return self._open(text, at)
        if sign == '"':
            self._toggle('"')
        elif sign == "`":
            self._toggle("`")
        elif sign == "}" and place == "${":
            self._places.pop()
        elif sign == ")" and place in ("(", "$(("):
            self._places.pop()
            return at + 2 if place == "$((" and text.startswith("))", at) else at + 1
        elif sign == ")" and place == "plain" and len(self._places) > 1:
            self._places.pop()
        elif place == "$((" or (place == "(" and "$((" in self._places):
            if sign == "(":
                self._places.append("(")
        elif place in ("plain", "`", "${"):
            return self._step_plain(text, at)
        return at + 1

    def _step_plain(self, text: str, at: int) -> int:
        sign = text[at]
        if sign == "'" and not (self._places[-1] == "${" and self._in_double_quotes()):
            self._places.append("'")
        elif self._places[-1] == "${":
            return at + 1
        elif sign == "(":
            self._places.append("plain")
        elif sign == "#" and self._before in _BEFORE_COMMENT:
            self._places.append("#")
        elif sign == "<" and text.startswith("<<", at):
            return self._open_heredoc(text, at)
        elif sign == "\n" and self._pending:
            self._begin_heredoc()
        return at + 1

    def _open(self, text: str, at: int) -> int:
        for opening, place in _OPENINGS:
            if text.startswith(opening, at):
                self._places.append(place)
                return at + len(opening)
        return at + 1

    def _toggle(self, quote: Place) -> None:
        if self._places[-1] == quote:
            self._places.pop()
        else:
            self._places.append(quote)

    def _open_heredoc(self, text: str, at: int) -> int:
        found = _HEREDOC.match(text, at)
        if text.startswith("<<<", at) or found is None:
            return at + 3 if text.startswith("<<<", at) else at + 2
        word = found["word"]
        quoted = bool(re.search(r"[\\'\"]", word))
        delimiter = re.sub(r"\\(.)|['\"]", lambda match: match[1] or "", word)
        self._pending.append(Heredoc(delimiter, found["tabs"] == "-", quoted))
        return found.end()

    def _begin_heredoc(self) -> None:
        self._places.append("<<'" if self._pending[0].quoted else "<<")
        self._line, self._filled = "", False

    def _read_heredoc(self, text: str, at: int) -> int:
        """Read the rest of a line of the body."""
        end = text.find("\n", at)
        if end < 0:
            self._line += text[at:]
            return len(text)
        self._line += text[at:end]
        self._refuse_delimiter()
        if self._ends_heredoc():
            self._places.pop()
            del self._pending[0]
            if self._pending:
                self._begin_heredoc()
        self._line, self._filled = "", False
        self._before = "\n"
        return end + 1
