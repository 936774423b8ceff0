"""Events of a log for people: one line each, with its number, time, name, subject and main data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from noetl.escape import one_line, shorten
from noetl.net.describe import value as short_value
from noetl.output import JSON
from noetl.views.envelopes import Envelope
from noetl.views.styled_text import Style, Styled

NAME_COLUMNS, ENTITY_COLUMNS = 28, 24
DATA_CHARS = 120
_STYLES: dict[str, Style] = {"error": "error", "skipped": "faint", "paused": "warning"}
_NOTHING: tuple[JSON, ...] = (None, "", (), [], {})
_AWAITED = ("name", "at", "block", "path")  # what a parked frame waits for, by its kind
_HELD = {True: "held", False: "did not hold"}
# Fields that the line shows elsewhere, or that mean nothing to a person.
_SHOWN_ELSEWHERE = frozenset(
    {
        "run",
        "frame",
        "call",
        "task",
        "index",
        "token",
        "attempt",
        "epoch",
        "input_hash",
        "started_at",
        "digest",
        "next",
        "keep",
    }
)
_LEFT_OUT = {
    "token.enqueued": frozenset({"id", "event"}),
    "task.done": _SHOWN_ELSEWHERE | {"status"},
    "step.scheduled": _SHOWN_ELSEWHERE | {"step"},
    "next.evaluated": _SHOWN_ELSEWHERE,
}


def event_line(envelope: Envelope, started_at: datetime) -> Iterator[Styled]:
    """`12.1  +0.034 s  task.started  fetch#1/1  …`."""
    at = datetime.fromisoformat(envelope.timestamp)
    seq = f"{envelope.seq}.{envelope.part}" if envelope.part else str(envelope.seq)
    style = _STYLES.get(envelope.status, "faint" if envelope.part else "")
    yield Styled(f"{seq:<8}", "faint")
    yield Styled(f"+{(at - started_at).total_seconds():.3f} s".rjust(12), "faint")
    yield Styled(f"  {envelope.name:<{NAME_COLUMNS}}  ", style)
    yield Styled(f"{one_line(_entity(envelope)):<{ENTITY_COLUMNS}}  ", "name")
    yield Styled(shorten("  ".join(_data(envelope)), DATA_CHARS))


def _entity(envelope: Envelope) -> str:
    """Events about the whole execution need no name."""
    return "" if envelope.entity in ("playbook", "workflow", "execution") else envelope.entity_id


def _data(envelope: Envelope) -> Iterator[str]:
    """The main data, each once."""
    if envelope.task_label is not None:
        yield one_line(envelope.task_label)
    if envelope.attempt is not None and envelope.attempt > 1:
        yield f"attempt {envelope.attempt}"
    left_out = _LEFT_OUT.get(envelope.name, _SHOWN_ELSEWHERE)
    found = (_text(key, value) for key, value in envelope.data.items() if key not in left_out)
    yield from dict.fromkeys(text for text in found if text)


def _text(key: str, value: JSON) -> str:
    match key, value:
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
        case "tokens" | "waiting" | "runs", [*each]:
            return f"{key} {', '.join(one_line(_name(one)) for one in each)}"
        case "asked", [*arcs]:
            return f"arcs {', '.join(f'{place} {_HELD[held]}' for place, held in arcs)}"
        case (("directive" | "status" | "step"), _):
            return one_line(str(value))
        case "until", {"type": kind}:
            awaited = next((value[each] for each in _AWAITED if each in value), "")
            return f"for the {kind} {one_line(str(awaited))}"
        case "set", {**values}:
            return f"sets {', '.join(one_line(str(each)) for each in values)}"
        case "ms", _:
            return f"{value:,.0f} ms"
        case "reads", [*paths]:
            return f"reads {', '.join(one_line('.'.join(('ctx', *path))) for path in paths)}"
    return f"{one_line(key)}={short_value(value)}"


def _name(each: JSON) -> str:
    """A token is named by its step, if that is known."""
    return str(each["step"] if isinstance(each, dict) and "step" in each else each)
