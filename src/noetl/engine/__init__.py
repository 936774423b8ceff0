"""The engine decides what happens next. Pure functions: no clock, random numbers, network, disk or log."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from noetl.engine import facts
from noetl.engine.accept import Recorded, accept
from noetl.engine.apply import apply
from noetl.engine.commands import Command, Decide
from noetl.engine.delegation import is_current
from noetl.engine.facts import Fact
from noetl.engine.settle import Agenda, agenda_of, end_delegation, put_on, settle
from noetl.engine.state import State
from noetl.net.program import Program

__all__ = [
    "FACTS_PER_COMMIT_MAX", "Agenda", "Event", "Recorded", "accept", "agenda_of", "apply", "handle", "put_on",
    "settle",
]  # fmt: skip

FACTS_PER_COMMIT_MAX = 10_000  # control continues in the next commit (D70)


class Event(Struct, frozen=True):
    """A fact in the log."""

    seq: int
    at: datetime
    fact: Fact


def handle(
    program: Program,
    state: State,
    command: Command | None,
    at: datetime,
    agenda: Agenda | None = None,
    *,
    at_most: int = FACTS_PER_COMMIT_MAX,
) -> list[Event]:
    """Accept a command, then settle until nothing follows.

    The state is advanced before the commit makes it visible.

    `agenda` is the rest of an earlier call; None: everything in the state that may need a decision, as after
    a fold. After a full commit more may follow: the caller continues without a command until a commit is not
    full.
    """
    made: list[Event] = []
    todo = agenda_of(state) if agenda is None else agenda

    def record(fact: Fact) -> None:
        apply(state, fact, at)
        put_on(todo, state, fact)
        made.append(Event(state.seq, at, fact))

    if isinstance(command, Decide):
        end_delegation(
            todo, state, command.decision, again=not is_current(program, state, command.decision, command.digest)
        )
    for fact in accept(program, state, command, at) if command is not None else ():
        record(fact)
    while len(made) < at_most and (following := settle(program, state, todo, at)) is not None:
        record(following)
        if isinstance(following, facts.Finished):
            record(facts.Processed(status=following.status))
    return made
