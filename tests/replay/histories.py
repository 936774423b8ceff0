"""Histories of a release, as its store kept them: one file each, a playbook and then one append a line.

The body of an append is read by the decoder that the stores have, and not by one of the tests.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from noetl.check.checker import check
from noetl.engine import commands
from noetl.engine.commands import Command
from noetl.engine.facts import Fact
from noetl.net.program import Program
from noetl.output import JSON
from noetl.ports import LogRow
from tests.playbooks import kinds

FOLDER: Final = Path(__file__).parent
EXECUTION: Final = "e"
DIGEST: Final = "digest"
facts_of: Final = msgspec.json.Decoder(tuple[Fact, ...]).decode


class Opening(Struct, kw_only=True):
    """The first line."""

    about: str  # what the history shows
    playbook: str  # its text


class Written(Struct, kw_only=True):
    """One append: what was asked, and the body that the store wrote."""

    first_seq: int
    at: datetime
    command: dict[str, JSON]  # its name → its fields
    facts: Raw

    def row(self) -> LogRow:
        return LogRow(self.first_seq, self.at, facts_of(self.facts))

    def asked(self) -> Command:
        ((name, fields),) = self.command.items()
        found: Command = msgspec.convert(fields, getattr(commands, name))
        return found


class History(Struct, kw_only=True):
    """A playbook and what happened to it, from the request to where the log ends."""

    opening: Opening
    appends: list[Written]

    def rows(self) -> list[LogRow]:
        return [each.row() for each in self.appends]

    def program(self) -> Program:
        checked = check(self.opening.playbook, kinds(), "history")
        assert not checked.errors, checked.errors
        assert checked.program is not None
        return checked.program._replace(digest=DIGEST)


def releases() -> list[str]:
    return sorted(each.name for each in (FOLDER / "logs").iterdir())


def files(release: str = "*") -> list[Path]:
    return sorted((FOLDER / "logs" / release).glob("*.jsonl") if release != "*" else _all())


def _all() -> list[Path]:
    return [path for release in releases() for path in files(release)]


def read(path: Path) -> History:
    first, *others = path.read_bytes().splitlines()
    appends = [msgspec.json.decode(line, type=Written) for line in others]
    return History(opening=msgspec.json.decode(first, type=Opening), appends=appends)


def write(path: Path, history: History) -> None:
    lines = [msgspec.json.encode(each) for each in (history.opening, *history.appends)]
    path.write_bytes(b"\n".join(lines) + b"\n")


def state_file(path: Path) -> Path:
    """The state that a history folds to: a copy, so it stands apart from what is for ever."""
    return FOLDER / "states" / path.parent.name / f"{path.stem}.json"


def state_of(path: Path) -> JSON:
    return json.loads(state_file(path).read_text("utf-8"))
