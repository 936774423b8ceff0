"""`noetl playbooks`: what is registered; the text of a version, what changed between two, and its end."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from noetl.cli import files
from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import server_at
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK, Usage
from noetl.cli.looking import screen_for
from noetl.cli.registering import catalog_at
from noetl.cli.screen import Screen, is_terminal
from noetl.cli.times import ago
from noetl.clock import SystemClock
from noetl.errors import NotFound
from noetl.escape import visible
from noetl.output import JSON
from noetl.ports import Catalog, PlaybookVersion
from noetl.runtime.settings import database_path
from noetl.views.log import instant
from noetl.views.styled_text import Style, Styled, table

PAGE = 100
SHORT_CHARS = 12  # of a digest
_STYLES: dict[str, Style] = {"+": "added", "-": "removed", "@": "kind"}


class Place(NamedTuple):
    """Where to look, and how to speak."""

    db: str | None
    form: FormatChoice


def run_playbooks(place: Place, limit: int, *, archived: bool) -> int:
    nowhere = server_at(place.db) is None and not database_path(place.db).exists()
    found: list[PlaybookVersion] = []
    if not nowhere:
        with catalog_at(place.db) as catalog:
            found = asyncio.run(_listed(catalog, limit, archived=archived))
    if place.form == "json":
        sys.stdout.write(as_document([_document(each) for each in found]))
    elif not found:
        Screen(sys.stderr).line("nothing to list: no playbook is registered here")
    else:
        _table(place.form, ("PATH", "VERSION", "REGISTERED", ""), [_row(each, _now()) for each in found])
    return OK


async def _listed(catalog: Catalog, limit: int, *, archived: bool) -> list[PlaybookVersion]:
    found: list[PlaybookVersion] = []
    while len(found) < limit:
        size = min(PAGE, limit - len(found))
        after = found[-1].path if found else ""
        page = await catalog.list(after=after, limit=size, archived=archived)
        found += page
        if len(page) < size:
            break
    return found


def run_versions(place: Place, path: str) -> int:
    with catalog_at(place.db) as catalog:
        found = asyncio.run(catalog.versions(path))
    if place.form == "json":
        sys.stdout.write(as_document([_document(each) for each in found]))
        return OK
    rows = [
        [
            Styled(str(each.version), "name"),
            Styled(each.digest[:SHORT_CHARS]),
            Styled(ago(each.at, _now()), "faint"),
            Styled("archived" if each.archived else "current" if each.current else "", "good"),
        ]
        for each in found
    ]
    _table(place.form, ("VERSION", "DIGEST", "REGISTERED", ""), rows)
    return OK


def run_text(place: Place, path: str, version: int | None) -> int:
    with catalog_at(place.db) as catalog:
        found, text = asyncio.run(_text(catalog, path, version))
    if place.form == "json":
        sys.stdout.write(as_document({**_document(found), "text": text}))
    elif is_terminal(sys.stdout):
        _lines(place.form, text)
    else:
        files.put(text.encode(), None)  # to the byte, so that its digest is the same
    return OK


async def _text(catalog: Catalog, path: str, version: int | None) -> tuple[PlaybookVersion, str]:
    """Also of what is archived: it stays on record."""
    found = _chosen(await catalog.versions(path), version)
    return found, (await catalog.get(found.digest)).text


def run_diff(place: Place, path: str, old: int | None, new: int | None) -> int:
    with catalog_at(place.db) as catalog:
        told = asyncio.run(_diff(catalog, path, old, new))
    if place.form == "json":
        document = {"path": told.path, "from": told.old, "to": told.new, "diff": told.diff}
        sys.stdout.write(as_document(document))
        return OK
    screen = screen_for(place.form)
    for number, line in enumerate(told.diff.splitlines()):
        screen.line(Styled(line, "strong" if number < 2 else _STYLES.get(line[:1], "")))
    return OK


class Difference(NamedTuple):
    """In the form of `diff -u`; empty: there is none."""

    path: str
    old: int
    new: int
    diff: str


async def _diff(catalog: Catalog, path: str, old: int | None, new: int | None) -> Difference:
    versions = await catalog.versions(path)
    later = _chosen(versions, new)
    if old is None and later.version == 1:
        words = "it is the first" if len(versions) == 1 else "give another with --from"
        raise Usage(f'"{path}" has nothing before version 1: {words}')
    earlier = _chosen(versions, later.version - 1 if old is None else old)
    before, after = [(await catalog.get(each.digest)).text.splitlines() for each in (earlier, later)]
    names = f"{path}@{earlier.version}", f"{path}@{later.version}"
    lines = difflib.unified_diff(before, after, names[0], names[1], lineterm="")
    return Difference(path, earlier.version, later.version, "".join(f"{line}\n" for line in lines))


def run_archive(place: Place, path: str) -> int:
    with catalog_at(place.db) as catalog:
        asyncio.run(catalog.archive(path))
    if place.form == "json":
        sys.stdout.write(as_document({"path": path, "archived": True}))
    else:
        screen_for(place.form).line(f"{visible(path)}: archived: nothing new starts from it")
    return OK


def _chosen(versions: Sequence[PlaybookVersion], number: int | None) -> PlaybookVersion:
    """One of a path; None: what starts now. Raises NotFound."""
    for each in versions:
        if each.current if number is None else each.version == number:
            return each
    highest = max(each.version for each in versions)
    raise NotFound(f'"{versions[0].path}" has no version {number}: they are counted from 1 to {highest}')


# What is said


def _now() -> datetime:
    return SystemClock().now()


def _document(version: PlaybookVersion) -> dict[str, JSON]:
    return {**version._asdict(), "at": instant(version.at)}


def _row(version: PlaybookVersion, now: datetime) -> list[Styled]:
    return [
        Styled(visible(version.path), "name"),
        Styled(str(version.version)),
        Styled(ago(version.at, now), "faint"),
        Styled("archived" if version.archived else "", "warning"),
    ]


def _table(form: FormatChoice, titles: Sequence[str], rows: Sequence[list[Styled]]) -> None:
    screen_for(form).lines(table([[Styled(title, "faint") for title in titles], *rows], indent=""))


def _lines(form: FormatChoice, text: str) -> None:
    screen = screen_for(form)
    for line in text.splitlines():
        screen.line(line)
