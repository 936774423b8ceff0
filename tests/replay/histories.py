"""The histories of a release: one file each, with a playbook and then one append per line.

Tests read the bodies of appends with the decoder of the stores.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

from noetl.checks.checker import check
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

    about: str  # the subject of the history
    playbook: str  # its text


class Written(Struct, kw_only=True):
    """One append: the command, and the body that the store wrote."""

    first_seq: int
    at: datetime
    command: dict[str, JSON]  # its name → its fields
    facts: Raw

    def row(self) -> LogRow:
        return LogRow(self.first_seq, self.at, facts_of(self.facts))

    def decoded_command(self) -> Command:
        ((name, fields),) = self.command.items()
        found: Command = msgspec.convert(fields, getattr(commands, name))
        return found


class History(Struct, kw_only=True):
    """A playbook and a log of it, from the request to the last append."""

    opening: Opening
    appends: list[Written]

    def rows(self) -> list[LogRow]:
        return [each.row() for each in self.appends]

    def program(self) -> Program:
        checked = check(self.opening.playbook, kinds(), "history")
        assert not checked.blocking, checked.blocking
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
    """The file of the state that a history folds to. It may be rewritten, so it is not beside the logs."""
    return FOLDER / "states" / path.parent.name / f"{path.stem}.json"


def state_of(path: Path) -> JSON:
    return json.loads(state_file(path).read_text("utf-8"))
