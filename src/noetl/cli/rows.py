"""A run that goes on, as a row of the live screen; and the words for it: how far it is, what it waits for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from shlex import quote

from msgspec import Struct, field

from noetl.cli.finding import short
from noetl.engine.facts import ForChild, ForSignal, ForTime, Until
from noetl.escape import one_line, shorten
from noetl.ids import run_id
from noetl.net.describe import count
from noetl.output import Failure
from noetl.views.runs import owner_of_list

MESSAGE_MAX = 160  # characters of an error in a line


class Row(Struct, kw_only=True):
    """A run that has not ended."""

    execution_id: str
    id: str
    step: str
    depth: int  # of its execution below the one that we follow, and of blocks
    scheduled_at: datetime
    told: bool = False  # was its start shown?
    total: int | None = None  # iterations, of a loop
    done: int = 0  # those that have ended, with the failed ones
    failed: int = 0
    retries: int = 0  # in its blocks too
    caller: Row | None = None  # of a block: what called it
    inside: int = 0  # of a list of loops: iterations of the last one that have ended
    note: str = ""  # what it does between two attempts
    waits: str = ""
    samples: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def rate(self) -> float | None:
        """Iterations in a second, lately; None: not known yet."""
        if len(self.samples) < 2:
            return None
        (then, before), (now, done) = self.samples[0], self.samples[-1]
        return (done - before) / (now - then) if now > then and done > before else None

    def around(self) -> Iterator[Row]:
        """What called it, and so on."""
        row = self
        while row.caller is not None:
            yield (row := row.caller)

    def end_iteration(self) -> None:
        self.done += 1
        owner = owner_of_list(self.step) if self.caller is not None else None
        for row in self.around() if owner is not None else ():
            row.inside += 1
            if row.step == owner:
                break


def shown(row: Row) -> str:
    """A step by its name, its second run by its id."""
    return one_line(row.step if row.id == run_id(row.step, 1) else row.id)


def tally(row: Row) -> str:
    words = ""
    if row.total is not None:
        words += f"  {count(row.done, 'iteration')}"
    if row.failed:
        words += f", {row.failed:,} failed"
    if row.inside:
        words += f", {row.inside:,} inside"
    if row.retries:
        words += f"{',' if words else ' '} {row.retries:,} retried"
    return words


def loop_words(row: Row) -> str:
    """`1,200/10,000 iterations, 350/s, 3 failed`."""
    assert row.total is not None
    words = [f"{min(row.done, row.total):,}/{row.total:,} iterations"]
    if row.rate is not None:
        words.append(per_second(row.rate))
    if row.failed:
        words.append(f"{row.failed:,} failed")
    if row.inside:
        words.append(f"{row.inside:,} inside")
    if row.retries:
        words.append(f"{row.retries:,} retried")
    if row.waits:
        words.append(row.waits)
    return ", ".join(words)


def per_second(rate: float) -> str:
    """`350/s`, `2.5/s`, `12.0/min`."""
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.5 else f"{rate * 60:.1f}/min"


def failure_words(error: Failure) -> str:
    return shorten(one_line(f"{error.kind}: {error.message}"), MESSAGE_MAX)


def waits_words(id: str, until: Until, flag: str) -> str:
    """What it waits for, and how to make that come."""
    match until:
        case ForTime(at=at):
            return f"waits until {at.astimezone().strftime('%Y-%m-%d %H:%M:%S %Z').strip()}"
        case ForSignal(name=name):
            # Quoted: a playbook of a stranger must not put words into the shell of who copies this.
            told = one_line(name)
            return f'waits for the signal "{told}": noetl signal {short(id)} {quote(told)}{flag}'
        case ForChild(execution_id=child, path=path):
            return f"runs {one_line(path)} ({short(child)})"
    return "runs a block"
