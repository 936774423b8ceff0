"""Write the histories of a release: `python -m tests.replay.scenarios 0.2`, once for each release.

They are the scenarios of the release with the decisions of its engine. Existing files are never rewritten. `--states`
writes only the states, of all releases, after a change of the class State.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
from msgspec import Raw

from noetl.engine.commands import Command
from noetl.testing.scenario import HEAD, Player, _parts
from noetl.views.log import events_of, folded
from noetl.views.replay import canonical
from tests.playbooks import kinds
from tests.replay.histories import (
    EXECUTION,
    FOLDER,
    History,
    Opening,
    Written,
    files,
    read,
    state_file,
    write,
)

SCENARIOS = FOLDER.parent / "scenarios"


class Recorder(Player):
    """A player that records its commands."""

    def __init__(self, text: str) -> None:
        super().__init__(text, kinds())
        self.appends: list[Written] = []

    def _handle(self, command: Command) -> list[str]:
        before = len(self.log)
        told = super()._handle(command)
        made = self.log[before:]
        if made:
            self.appends.append(
                Written(
                    first_seq=made[0].seq,
                    at=made[0].at,
                    command={type(command).__name__: msgspec.to_builtins(command)},
                    facts=Raw(msgspec.json.encode(tuple(event.fact for event in made))),
                )
            )
        return told


def recorded(path: Path) -> History:
    head, playbook, commands = _parts(path.read_text("utf-8"))
    player = Recorder(playbook)
    for _, command in commands:
        player.play(command)
    about = " ".join(line.removeprefix("#").strip() for line in head if line)
    return History(opening=Opening(about=about, playbook=HEAD + playbook), appends=player.appends)


def write_state(path: Path) -> None:
    state = folded(EXECUTION, events_of(read(path).rows()))
    told = json.dumps(json.loads(canonical(state)), ensure_ascii=False, indent=1, sort_keys=True)
    state_file(path).parent.mkdir(parents=True, exist_ok=True)
    state_file(path).write_text(told + "\n", "utf-8")


def main(release: str) -> None:
    if release == "--states":
        for path in files():
            write_state(path)
        return
    folder = FOLDER / "logs" / release
    if any(folder.glob("*.jsonl")):
        raise SystemExit(f"the histories of {release} exist and must not change")
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(SCENARIOS.glob("*.txt")):
        history = folder / f"{path.stem}.jsonl"
        write(history, recorded(path))
        write_state(history)


if __name__ == "__main__":
    main(sys.argv[1])
