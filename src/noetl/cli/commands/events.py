"""`noetl events`: the log of an execution, one event per line; with `--follow` also new ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Db, Id, Server, app, on_execution
from noetl.cli.output.screen import short
from noetl.escape import one_line, shorten
from noetl.session.errors import UsageError
from noetl.views.styled_text import Style, Styled

if TYPE_CHECKING:
    from noetl.cli.arguments import FormatChoice
    from noetl.output import JSON
    from noetl.session.execution import Execution
    from noetl.views.envelopes import Envelope

EventsChoice: TypeAlias = Literal["auto", "rich", "plain", "jsonl", "json"]


@app.command()
def events(
    id: Id,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing until the execution ends.")] = False,
    first: Annotated[int, typer.Option("--from", min=1, metavar="SEQ", help="Start with this fact.")] = 1,
    format: Annotated[
        EventsChoice, typer.Option(help="`jsonl` prints one JSON object per line, `json` prints one array.")
    ] = "auto",
    db: Db = None,
    server: Server = None,
) -> None:
    """Print the log of an execution, one event per line.

    For people: its number, the time since the start, its name, its subject, and the main data.

    \b
    Examples:
      noetl events last
      noetl events last --follow
      noetl events 0199b3c2 --from 100 --format jsonl
    """

    def before(_reporter: Reporter) -> None:
        if follow and format == "json":
            raise UsageError("--follow cannot close a JSON array: use --format jsonl")

    async def work(reporter: Reporter, execution: Execution) -> int:
        printer = _Printer(reporter, execution, format)
        await printer.open()
        async for event in execution.events(after=first - 1, follow=follow, on_ownerless=printer.warn_ownerless):
            printer.print(event)
            if follow:
                sys.stdout.flush()
        printer.close()
        return 0

    # Events that were printed before an error stay: no error document can follow them.
    people: FormatChoice = "rich" if format == "rich" else "plain" if format == "plain" else "auto"
    on_execution(people, id, db, server, work, before=before)


class _Printer:
    def __init__(self, reporter: Reporter, execution: Execution, format: EventsChoice) -> None:
        self._reporter = reporter
        self._execution = execution
        self._format = format
        self._separator = ""

    async def open(self) -> None:
        self._started_at = (await self._execution.info()).started_at
        if self._format == "json":
            sys.stdout.write("[")

    def print(self, event: Envelope) -> None:
        from noetl.cli.output.documents import as_line

        if self._format == "jsonl":
            sys.stdout.write(as_line(event))
        elif self._format == "json":
            sys.stdout.write(f"{self._separator}\n  {as_line(event).rstrip()}")
            self._separator = ","
        else:
            self._reporter.screen.line(*event_line(event, self._started_at))

    def close(self) -> None:
        if self._format == "json":
            sys.stdout.write("\n]\n")

    def warn_ownerless(self) -> None:
        name = f"{short(self._execution.id)}{self._execution.session.hint}"
        text = f"no process runs it now: continue with noetl resume {name}"
        self._reporter.errors.line(Styled(text, "warning"))


NAME_COLUMNS, ENTITY_COLUMNS = 28, 24
DATA_CHARS = 120
_STYLES: dict[str, Style] = {"error": "error", "skipped": "faint", "paused": "warning"}
_NOTHING: tuple[JSON, ...] = (None, "", (), [], {})
_AWAITED = ("name", "at", "block", "path", "place")  # what a parked frame waits for, by its kind
_HELD = {True: "true", False: "false"}
# Fields that the line shows elsewhere, or that mean nothing to a person.
_SHOWN_ELSEWHERE = frozenset({
    "run", "frame", "call", "task", "index", "token", "attempt", "epoch", "input_hash", "started_at", "digest",
    "next", "keep", "level",
})  # fmt: skip
_LEFT_OUT = {
    "token.enqueued": frozenset({"id", "event", "playbook", "parent"}),
    "task.done": _SHOWN_ELSEWHERE | {"status"},
    "step.scheduled": _SHOWN_ELSEWHERE | {"step"},
    "next.evaluated": _SHOWN_ELSEWHERE,
    "hold.released": _SHOWN_ELSEWHERE | {"at"},
    "scope.changed": _SHOWN_ELSEWHERE | {"at"},
}


def event_line(envelope: Envelope, started_at: datetime) -> Iterator[Styled]:
    """`12.1  +0.034 s  task.started  fetch#1/1  …`."""
    at = datetime.fromisoformat(envelope.timestamp)
    seq = f"{envelope.seq}.{envelope.part}" if envelope.part else str(envelope.seq)
    style = _STYLES.get(envelope.status, "faint" if envelope.part else "")
    yield Styled(f"{seq:<8}", "faint")
    yield Styled(f"+{(at - started_at).total_seconds():.3f} s".rjust(12), "faint")
    yield Styled(f"  {envelope.name:<{NAME_COLUMNS}}  ", style)
    # Events about the whole execution need no name.
    entity = "" if envelope.entity in ("playbook", "workflow", "execution") else envelope.entity_id
    yield Styled(f"{one_line(entity):<{ENTITY_COLUMNS}}  ", "name")
    yield Styled(shorten("  ".join(_data(envelope)), DATA_CHARS))


def _data(envelope: Envelope) -> Iterator[str]:
    """The main data, each once."""
    if envelope.task_label is not None:
        yield one_line(envelope.task_label)
    if envelope.attempt is not None and envelope.attempt > 1:
        yield f"attempt {envelope.attempt}"
    match envelope.name, envelope.data.get("output"):
        case "task.done", {"meta": {"tries": [_, *_, {"try": int(tries)}]}}:
            yield f"{tries} tries"
    left_out = _LEFT_OUT.get(envelope.name, _SHOWN_ELSEWHERE)
    found = (_text(key, value) for key, value in envelope.data.items() if key not in left_out)
    yield from dict.fromkeys(text for text in found if text)


def _text(key: str, value: JSON) -> str:
    from noetl.net.describe import value as short_value

    match key, value:
        case "rule", int(place):
            return f"rule {place + 1}"
        case "rule", "else":
            return "rule else"
        case _ if value in _NOTHING:
            return ""
        case "error", {"kind": kind, "message": message}:
            return f"{one_line(str(kind))}: {one_line(str(message))}"
        case "output", {"error": {"kind": _, "message": _} as error}:
            return _text("error", error)
        case "output", {"data": data} if data is not None:
            return f"data={short_value(data)}"
        case "output", _:
            return "its data is stored" if value.get("ref") else ""
        case "tokens" | "waiting" | "runs" | "compensations" | "uncompensated", [*each]:
            return f"{key} {', '.join(one_line(_name(one)) for one in each)}"
        case "asked", [*arcs]:
            return f"arcs {', '.join(f'{place + 1} {_HELD[held]}' for place, held in arcs)}"
        case "step", True:
            return "for one step"
        case "hold", {"place": place}:
            return f"held before {one_line(str(place))}"
        case (("directive" | "status" | "step"), _):
            return one_line(str(value))
        case "until", {"type": kind}:
            awaited = next((value[each] for each in _AWAITED if each in value), "")
            return f"for the {kind} {one_line(str(awaited))}"
        case "set", {**values}:
            return f"sets {', '.join(one_line(str(each)) for each in values)}"
        case "tries", [*_, {"try": tried, "kind": kind, "message": message}]:
            return f"try {tried} failed: {one_line(str(kind))}: {one_line(str(message))}"
        case "ms", _:
            return f"{value:,.0f} ms"
        case "reads", [*paths]:
            return f"reads {', '.join(one_line('.'.join(('ctx', *path))) for path in paths)}"
    return f"{one_line(key)}={short_value(value)}"


def _name(each: JSON) -> str:
    """A token is named by its step, if that is known."""
    return str(each["step"] if isinstance(each, dict) and "step" in each else each)
