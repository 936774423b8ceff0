"""Ids, their beginnings, and `last`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from noetl.cli.exits import Usage
from noetl.cli.finding import FOUND_SHOWN_MAX, PAGE, find_execution, pasted, short


class Head(NamedTuple):
    execution_id: str
    parent: str | None = None


class Heads:
    """A listing in memory, newest first."""

    def __init__(self, *heads: Head) -> None:
        self.heads = heads

    async def find(self, prefix: str) -> list[str]:
        return [head.execution_id for head in self.heads if head.execution_id.startswith(prefix)][:20]

    async def executions(self, limit: int = 100, *, before: str | None = None) -> Sequence[Head]:
        ids = [head.execution_id for head in self.heads]
        first = 0 if before is None else ids.index(before) + 1
        return self.heads[first : first + limit]


def found(heads: Heads, given: str) -> str:
    return asyncio.run(find_execution(heads, given))


def test_an_id_and_its_beginning_find_the_same_execution() -> None:
    heads = Heads(Head("01ab-7-c"), Head("01ac-7-d"))
    assert [found(heads, given) for given in ("01ab-7-c", "01ab", " 01AB ")] == ["01ab-7-c"] * 3


def test_a_beginning_of_several_names_them() -> None:
    heads = Heads(*(Head(f"01{number:02}") for number in range(15)))
    with pytest.raises(Usage) as error:
        found(heads, "01")
    lines = str(error.value).split("\n")
    assert lines[0] == '"01" is the beginning of several ids; give more of it:'
    assert lines[1:] == [*(f"  01{number:02}" for number in range(FOUND_SHOWN_MAX)), "  …"]


@pytest.mark.parametrize("given", ["", "  ", "%", "g", "last ", "0" * 37, "' OR 1"])
def test_what_can_be_no_id_is_not_looked_up(given: str) -> None:
    with pytest.raises(Usage, match="is no id of an execution"):
        found(Heads(Head("01")), given)


def test_an_id_that_nobody_has_is_said() -> None:
    with pytest.raises(Usage, match='no execution has an id that begins with "ff"'):
        found(Heads(Head("01")), "ff")


def test_last_is_the_newest_that_is_nobodys_child_however_many_children_there_are() -> None:
    children = [Head(f"c{number}", "p/start#1@1") for number in range(PAGE + 1)]
    assert found(Heads(*children, Head("p"), Head("older")), "last") == "p"


def test_last_of_nothing_is_said() -> None:
    with pytest.raises(Usage, match="nothing has been run yet"):
        found(Heads(), "last")


def test_a_short_id_is_the_beginning_with_some_of_its_dice() -> None:
    assert short("01a1df73-f57c-7914-bb45-80921dc2a2bb") == "01a1df73-f57c-7914"


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        ('no secret "a" is stored: noetl secrets set a', True),
        ("no token 7: see noetl token list", True),
        ("the log of 01a1 cannot be read (KeyError: 'x'): see noetl audit 01a1", True),
        ("see noetl audit; it is damaged", False),
        ("the noetl of this machine is too old", False),
        ("HTTP 404", False),
    ],
)
def test_a_command_at_the_end_of_an_error_comes_to_the_same_place(words: str, ends: bool) -> None:
    assert pasted(words, " --db own.db") == (f"{words} --db own.db" if ends else words)
    assert pasted(words, "") == words
