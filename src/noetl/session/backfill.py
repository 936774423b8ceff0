"""Backfill: run a playbook once for each window of time, as the children of one execution.

The parent is an ordinary playbook with a loop over the windows, so it is shown, cancelled and retried like any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from noetl.control.log_pages import read_slices
from noetl.control.refusals import path_in
from noetl.engine.facts import ForChild, FrameParked
from noetl.errors import PlaybookError
from noetl.output import JSON
from noetl.playbook.source import Document, parse
from noetl.ports import PlaybookText
from noetl.session.declared import declared_in
from noetl.session.errors import UsageError
from noetl.session.sources import PlaybookFile, digest_of, find_registered

if TYPE_CHECKING:
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session

WINDOWS_MAX: Final = 10_000
IN_FLIGHT_MAX: Final = 1_000
PATH: Final = "backfill/"  # before the path of the playbook: the path of the parent
_EVERY: Final = re.compile(r"([1-9][0-9]{0,3})(h|d|w|mo)")


class Window(NamedTuple):
    """From `start`, up to but without `end`."""

    start: datetime
    end: datetime

    def document(self) -> dict[str, JSON]:
        return {"start": _rfc3339(self.start), "end": _rfc3339(self.end)}

    @property
    def key(self) -> tuple[datetime, datetime]:
        """Equal for the same window in another time zone."""
        return _utc(self.start), _utc(self.end)


def _rfc3339(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


class Every(NamedTuple):
    """The length of a window. Days, weeks and months follow the calendar of the time zone, hours the clock."""

    number: int
    unit: str  # h, d, w, mo

    def after(self, first: datetime, windows: int) -> datetime:
        """The start of a window, counted from 0."""
        steps = windows * self.number
        if self.unit == "h":
            return (first.astimezone(UTC) + timedelta(hours=steps)).astimezone(first.tzinfo)
        if self.unit == "mo":
            return _on_the_clock(_months_later(first, steps))
        return _on_the_clock(first + timedelta(days=steps * (7 if self.unit == "w" else 1)))


def _months_later(first: datetime, months: int) -> datetime:
    """On the same day, or on the last one of a shorter month."""
    year, month = divmod(first.year * 12 + first.month - 1 + months, 12)
    next_month = date(year + (month == 11), (month + 1) % 12 + 1, 1)
    return first.replace(year=year, month=month + 1, day=min(first.day, (next_month - timedelta(days=1)).day))


def _on_the_clock(at: datetime) -> datetime:
    """A time that a change of the clock leaves out is moved by the change."""
    return at.replace(fold=0).astimezone(UTC).astimezone(at.tzinfo)


def parse_every(text: str) -> Every:
    """Raises UsageError."""
    found = _EVERY.fullmatch(text.strip())
    if found is None:
        raise UsageError(f'--every "{text}" is not a length of windows: write 1h, 6h, 1d, 1w or 1mo')
    return Every(int(found[1]), found[2])


def parse_zone(name: str) -> ZoneInfo:
    """Raises UsageError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UsageError(f'--timezone "{name}" is unknown: write a name such as Europe/Zurich, or UTC') from None


def parse_instant(text: str, zone: ZoneInfo, option: str) -> datetime:
    """A date, or an instant with or without a time zone. Raises UsageError."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f'{option} "{text}" is not a time: write 2026-01-31 or 2026-01-31T06:00:00') from None
    return at.astimezone(zone) if at.tzinfo is not None else _on_the_clock(at.replace(tzinfo=zone))


def windows_between(first: datetime, end: datetime, every: Every) -> list[Window]:
    """The windows, oldest first; the last one ends at `end`. Raises UsageError.

    Instants are compared in UTC: Python compares two times of one zone by the clock, which goes back in autumn.
    """
    if _utc(first) >= _utc(end):
        raise UsageError(f"--from {_rfc3339(first)} is not before --to {_rfc3339(end)}, which is exclusive")
    found: list[Window] = []
    start, number = first, 0
    while _utc(start) < _utc(end):
        number += 1
        if number > WINDOWS_MAX:
            raise UsageError(f"these are more than {WINDOWS_MAX:,} windows: use larger ones, or several backfills")
        try:
            following = min(every.after(first, number), end, key=_utc)
        except (OverflowError, ValueError):
            following = end
        if _utc(following) > _utc(start):
            found.append(Window(start, following))
        start = following
    return found


def _utc(at: datetime) -> datetime:
    return at.astimezone(UTC)


class BackfillPlaybook(NamedTuple):
    """The playbook that runs for each window."""

    path: str
    text: PlaybookText | None  # of a file: it is registered first; None: it is registered
    reads_window: bool


async def find_playbook(session: Session, source: PlaybookFile | str) -> BackfillPlaybook:
    """Raises UsageError, NotFound, or PlaybookError when a file cannot run."""
    if isinstance(source, str):
        text = await find_registered(session.catalog, source)
        return BackfillPlaybook(text.path, None, _reads_window(parse(text.text, text.path).document))
    problems = await session.check(source)
    if any(each.severity == "error" for each in problems):
        raise PlaybookError(problems)
    document = parse(source.data, source.name).document
    path = path_in(document)
    assert path is not None, "a playbook without problems has a path"
    text = PlaybookText(digest_of(document.text), path, document.text, source.origin)
    return BackfillPlaybook(path, text, _reads_window(document))


def _reads_window(document: Document) -> bool:
    """Raises UsageError when the playbook would refuse the window."""
    declared = declared_in(document)
    if declared.types is not None and "window" not in declared.types:
        raise UsageError(
            f'{document.file}: its `input` does not declare "window": add window: {{type: map}}, with start and end'
        )
    return declared.reads_all or "window" in declared.reads


def parent_text(path: str, in_flight: int) -> str:
    """The playbook with the loop over windows. All windows run; if one fails, so does the whole."""
    call = {"kind": "playbook", "path": path, "input": {"window": "{{ iter.window }}"}}
    loop = {
        "in": "{{ workload.windows }}",
        "iterator": "window",
        "spec": {"mode": "parallel", "max_in_flight": in_flight},
    }
    step = {
        "step": "start",
        "loop": loop,
        "spec": {"policy": {"failure": {"mode": "best_effort"}}},
        "tool": call,
        "next": {"arcs": [{"step": "failed", "when": "{{ output.meta.failed > 0 }}"}, {"step": "end"}]},
        "set": {"ctx.failed": "{{ output.meta.failed }}", "ctx.count": "{{ output.meta.count }}"},
    }
    message = "{{ ctx.failed }} of {{ ctx.count }} windows failed: noetl backfill … --missing runs them again"
    rules = [{"else": {"then": {"do": "fail", "message": message}}}]
    failed = {"step": "failed", "tool": {"kind": "noop", "spec": {"policy": {"rules": rules}}}}
    playbook = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "backfill", "path": PATH + path, "labels": {"backfill": path}},
        "workload": {"windows": []},
        "workflow": [step, failed],
    }
    return msgspec.json.format(msgspec.json.encode(playbook), indent=2).decode()


async def succeeded(session: Session, path: str) -> set[tuple[datetime, datetime]]:
    """The windows of earlier backfills of the playbook whose execution ended with ok, by `Window.key`."""
    found: set[tuple[datetime, datetime]] = set()
    async for info in session.executions(path=PATH + path):
        children = {each.execution_id for each in await session.listing.children(info.id) if each.status == "ok"}
        if not children:
            continue
        async for events in read_slices(session.log, info.id):
            for event in events:
                match event.fact:
                    case FrameParked(until=ForChild(execution_id=id, workload={"window": dict(window)})):
                        if id in children and (key := _key(window)) is not None:
                            found.add(key)
    return found


def _key(window: dict[str, JSON]) -> tuple[datetime, datetime] | None:
    try:
        return Window(datetime.fromisoformat(window["start"]), datetime.fromisoformat(window["end"])).key
    except (KeyError, TypeError, ValueError):
        return None


async def start_backfill(
    session: Session, playbook: BackfillPlaybook, windows: Sequence[Window], in_flight: int
) -> Execution:
    """Start the parent. Raises Rejected when the caller may not register its playbook."""
    if playbook.text is not None:
        await session.playbooks.register({playbook.path: playbook.text})
    text = parent_text(playbook.path, in_flight)
    source = PlaybookFile(f"backfill of {playbook.path}", text.encode())
    return await session.start(source, workload={"windows": [each.document() for each in windows]})
