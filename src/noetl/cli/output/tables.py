"""Tables of executions, playbooks, secrets and tokens, and the JSON documents of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec.json import encode

from noetl.api.admin import PoolItem, WorkerItem
from noetl.api.executions import to_datetime
from noetl.cli.output.screen import STYLES, ago, duration
from noetl.engine.facts import Finished
from noetl.errors import Damaged
from noetl.escape import head, one_line, shorten, visible, width
from noetl.output import JSON
from noetl.ports import ApiToken, PlaybookVersion, SavedValue, SecretInfo
from noetl.session.protocol import ExecutionInfo, Session
from noetl.views.documents import ErrorDocument, OutputDocument, ShowDocument, output_document
from noetl.views.log import events_of, instant
from noetl.views.styled_text import Styled, table

PATH_COLUMNS_MIN = 12
ID_CHARS = 13  # of an id: its millisecond; more where that is not unique
DIGEST_CHARS = 12
SAVED_CHARS = 60  # of a saved value; JSON has all of it


def titled(titles: Sequence[str], rows: Iterator[list[Styled]] | Sequence[list[Styled]]) -> list[list[Styled]]:
    """A table under a row of titles."""
    return list(table([[Styled(title, "faint") for title in titles], *rows], indent=""))


# Executions


async def execution_document(session: Session, info: ExecutionInfo) -> dict[str, JSON]:
    """The document of `show` without the steps, plus its row; a damaged log does not hide the others."""
    try:
        found = await _from_end(session, info) if info.status == "ok" else await session.show(info.id)
    except Damaged as error:
        found = _from_info(info, error=ErrorDocument(kind="damaged", message=str(error)))
    document: dict[str, JSON] = msgspec.to_builtins(found)
    del document["steps"]
    return {
        "execution_id": document.pop("execution_id"),
        "path": info.path,
        "started": instant(info.started_at),
        "called_by": info.parent and _caller(info),
        "labels": info.labels,
        **document,
        "status": info.standing,
    }


async def _from_end(session: Session, info: ExecutionInfo) -> ShowDocument:
    """The last facts of a successful execution are enough, however long its log is."""
    rows = await session.log.read(info.id, max(0, info.seq - 2))
    ends = [event.fact.output for event in events_of(rows) if isinstance(event.fact, Finished)]
    return _from_info(info, output=output_document(ends[-1]) if ends else None)


def _from_info(
    info: ExecutionInfo, *, output: OutputDocument | None = None, error: ErrorDocument | None = None
) -> ShowDocument:
    return ShowDocument(
        execution_id=info.id,
        status="running" if info.standing == "interrupted" else info.standing,
        output=output,
        error=error,
        duration_s=round((info.updated_at - info.started_at).total_seconds(), 6),
        steps=(),
    )


def execution_table(found: Sequence[ExecutionInfo], now: datetime, columns: int) -> list[list[Styled]]:
    return list(table(_fitted(list(_rows(found, now)), columns), indent=""))


def _rows(found: Sequence[ExecutionInfo], now: datetime) -> Iterator[list[Styled]]:
    called = any(info.parent for info in found)
    titles = ["ID", "PATH", "STATUS", "STARTED", "DURATION", *(["CALLED BY"] if called else [])]
    yield [Styled(title, "faint") for title in titles]
    names = _short_ids([info.id for info in found])
    for info in found:
        until = now if info.live and info.owner_alive else info.updated_at
        row = [
            Styled(names[info.id], "name"),
            Styled(visible(info.path)),
            Styled(info.standing, STYLES[info.standing]),
            Styled(ago(info.started_at, now), "faint"),
            Styled(duration((until - info.started_at).total_seconds())),
        ]
        if called:
            row.append(Styled(_caller(info)[: len(names[info.id])], "faint"))
        yield row


def _caller(info: ExecutionInfo) -> str:
    return (info.parent or "").partition("/")[0]


def _short_ids(ids: Sequence[str]) -> dict[str, str]:
    """The shortest prefixes that are unique in this list."""
    length = ID_CHARS
    while len({id[:length] for id in ids}) < len(ids):
        length += 1
    return {id: id[:length] for id in ids}


def _fitted(rows: list[list[Styled]], columns: int) -> list[list[Styled]]:
    """The path is cut when lines would be too long."""
    others = sum(max(width(row[place].text) for row in rows) + 2 for place in range(len(rows[0])) if place != 1)
    room = max(PATH_COLUMNS_MIN, columns - others)
    return [[row[0], Styled(_cut(row[1].text, room), row[1].style), *row[2:]] for row in rows]


def _cut(text: str, columns: int) -> str:
    """Cut the beginning of a path: its end says more."""
    if width(text) <= columns:
        return text
    return "…" + head(text[::-1], columns - 1)[::-1]


# Saved values


def saved_table(found: Sequence[SavedValue], now: datetime) -> list[list[Styled]]:
    rows = [
        [
            Styled(each.key, "name"),
            Styled("(removed)" if each.removed else shorten(one_line(encode(each.value).decode()), SAVED_CHARS)),
            Styled(ago(each.at, now), "faint"),
            Styled(visible(each.execution_id or each.by or ""), "faint"),
        ]
        for each in found
    ]
    return titled(("KEY", "VALUE", "SET", "BY"), rows)


# Workers and pools


def worker_table(found: Sequence[WorkerItem], now: datetime) -> list[list[Styled]]:
    rows = [
        [
            Styled(visible(each.name), "name"),
            Styled(visible(each.pool)),
            Styled(f"{each.busy} of {each.slots}"),
            Styled(f"{visible(each.host)} {each.pid}"),
            Styled(each.version),
            Styled(ago(to_datetime(each.at), now), "faint"),
            Styled("leaving" if each.leaving else "", "warning"),
        ]
        for each in found
    ]
    return titled(("NAME", "POOL", "BUSY", "PROCESS", "VERSION", "SEEN", ""), rows)


def pool_table(found: Sequence[PoolItem]) -> list[list[Styled]]:
    rows = [
        [
            Styled(visible(each.pool), "name"),
            Styled(str(each.workers)),
            Styled(f"{each.busy} of {each.slots}"),
            Styled("" if each.share is None else str(each.share)),
        ]
        for each in found
    ]
    return titled(("POOL", "WORKERS", "BUSY", "SHARE"), rows)


# Playbooks


def version_document(version: PlaybookVersion) -> dict[str, JSON]:
    return {**version._asdict(), "at": instant(version.at)}


def playbook_table(found: Sequence[PlaybookVersion], now: datetime) -> list[list[Styled]]:
    rows = [
        [
            Styled(visible(each.path), "name"),
            Styled(str(each.version)),
            Styled(ago(each.at, now), "faint"),
            Styled("archived" if each.archived else "", "warning"),
        ]
        for each in found
    ]
    return titled(("PATH", "VERSION", "REGISTERED", ""), rows)


def version_table(found: Sequence[PlaybookVersion], now: datetime) -> list[list[Styled]]:
    rows = [
        [
            Styled(str(each.version), "name"),
            Styled(each.digest[:DIGEST_CHARS]),
            Styled(ago(each.at, now), "faint"),
            Styled("archived" if each.archived else "current" if each.current else "", "good"),
        ]
        for each in found
    ]
    return titled(("VERSION", "DIGEST", "REGISTERED", ""), rows)


# Secrets and tokens


def secret_document(secret: SecretInfo) -> dict[str, JSON]:
    return {"name": secret.name, "version": secret.version, "at": instant(secret.at)}


def secret_table(found: Sequence[SecretInfo], now: datetime) -> list[list[Styled]]:
    rows = [
        [Styled(visible(each.name), "name"), Styled(str(each.version)), Styled(ago(each.at, now), "faint")]
        for each in found
    ]
    return titled(("NAME", "VERSION", "SET"), rows)


def token_document(token: ApiToken, scopes: Sequence[str]) -> dict[str, JSON]:
    return {
        "id": token.id,
        "name": token.name,
        "scopes": [scope for scope in scopes if scope in token.scopes],
        "created_at": instant(token.created_at),
        "expires_at": None if token.expires_at is None else instant(token.expires_at),
        **({"roles": [msgspec.to_builtins(each) for each in token.roles]} if token.roles else {}),
    }


def token_table(found: Sequence[ApiToken], now: datetime) -> list[list[Styled]]:
    from noetl.control.api_tokens import rights_of

    rows = [
        [
            Styled(each.id, "name"),
            Styled(visible(each.name)),
            Styled(visible(rights_of(each))),
            Styled(ago(each.created_at, now), "faint"),
            _expiry(each.expires_at, now),
        ]
        for each in found
    ]
    return titled(("ID", "NAME", "SCOPES", "CREATED", "EXPIRES"), rows)


def _expiry(at: datetime | None, now: datetime) -> Styled:
    if at is None:
        return Styled("never", "faint")
    return Styled("expired", "warning") if at <= now else Styled(f"{at:%Y-%m-%d %H:%M}Z", "faint")
