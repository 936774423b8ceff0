"""`noetl run`, `resume` and `retry` against a server: it checks and runs, and we look on.

Ctrl-C ends only the looking on. What is shown is made from the facts of the stream, as for a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from noetl.cli import files
from noetl.cli.answering import Voice, tell_refused
from noetl.cli.asked import RunAsked
from noetl.cli.carrying import conclusion
from noetl.cli.contexts import Server
from noetl.cli.executing import warn_of
from noetl.cli.exits import INTERRUPTED, OK, Usage
from noetl.cli.failing import refuse_what_never_began
from noetl.cli.finding import short
from noetl.cli.interrupts import Interrupted, Interrupts
from noetl.cli.loading import found_in, means_file
from noetl.cli.remote import ServerDisk
from noetl.cli.remote_following import follow
from noetl.cli.workload import given_workload
from noetl.client import PlaybookRefused, StartResponse
from noetl.engine.state import LIVE
from noetl.errors import NotFound, PlaybookError, Unavailable
from noetl.escape import one_line
from noetl.output import JSON
from noetl.playbook.source import Document, Mapping, Scalar, Sequence, Tree, parse, plain
from noetl.views.documents import show_document
from noetl.views.log import events_of
from noetl.views.runs import Runs


def run_there(voice: Voice, asked: RunAsked, server: Server) -> int:
    if asked.file == files.STDIN == asked.workload:
        raise Usage("standard input can be read only once: it is the playbook or the workload")
    workload = given_workload(asked.workload, asked.sets)
    voice.flag = server.flag
    disk = ServerDisk.of(server)
    if not means_file(asked.file):
        return asyncio.run(_run_registered(voice, asked, disk, workload))
    source = files.read(asked.file)
    document, problems = parse(source.data, source.name)
    if not document.text:  # the server takes text: what is none needs no server
        return tell_refused(voice, problems, "")
    return asyncio.run(_run_text(voice, asked, disk, document, workload))


async def _run_registered(voice: Voice, asked: RunAsked, disk: ServerDisk, workload: dict[str, JSON]) -> int:
    text = await found_in(disk.catalog, asked.file)
    started = await disk.client.start(workload=workload, digest=text.digest)
    _warn(voice, asked, started, parse(text.text, text.path).document, workload)
    return await _begun(voice, disk, started, detach=asked.detach)


async def _run_text(
    voice: Voice, asked: RunAsked, disk: ServerDisk, document: Document, workload: dict[str, JSON]
) -> int:
    client = disk.client
    try:
        await _look_for_children(disk, asked.file, document)
        started = await client.start_text(document.text, workload, dialect=asked.dialect, file=document.file)
    except PlaybookError as error:
        if isinstance(error, PlaybookRefused):
            voice.execution_id = error.execution_id
        return tell_refused(voice, error.problems, document.text)
    _warn(voice, asked, started, document, workload)
    return await _begun(voice, disk, started, detach=asked.detach)


def _warn(
    voice: Voice, asked: RunAsked, started: StartResponse, document: Document, workload: dict[str, JSON]
) -> None:
    declared = plain(document.find(("workload",)))
    warnings = sum(each.severity == "warning" for each in started.problems or ())
    warn_of(voice, asked.file, warnings, declared if isinstance(declared, dict) else {}, workload)


async def _begun(voice: Voice, disk: ServerDisk, started: StartResponse, *, detach: bool) -> int:
    voice.execution_id, voice.status = started.execution_id, "running"
    if detach:
        return _detached(voice, started.status)
    return await _look_on(voice, disk, Runs(started.execution_id))


async def resume_there(voice: Voice, disk: ServerDisk, execution_id: str, *, detach: bool) -> int:
    head = await disk.listing.head(execution_id)
    if head.status not in LIVE:
        voice.warn(f"it has ended already: {head.status}")
        return conclusion(voice, await _so_far(disk, execution_id))
    runs = await _so_far(disk, execution_id)
    if head.status == "paused":
        told = await disk.client.resume(execution_id)
        if detach:
            return _detached(voice, told.status)
    elif detach:
        return _detached(voice, head.status)
    return await _look_on(voice, disk, runs)


async def retry_there(
    voice: Voice, disk: ServerDisk, execution_id: str, step: str | None, *, from_start: bool, detach: bool
) -> int:
    await refuse_what_never_began(disk, execution_id)
    runs = await _so_far(disk, execution_id)
    told = await disk.client.retry(execution_id, step, from_start=from_start)
    if detach:
        return _detached(voice, told.status)
    return await _look_on(voice, disk, runs)


async def _so_far(disk: ServerDisk, execution_id: str) -> Runs:
    runs = Runs(execution_id)
    await _read_on(disk, runs)
    return runs


async def _read_on(disk: ServerDisk, runs: Runs) -> None:
    async for rows in disk.store.pages(runs.state.execution_id, runs.state.seq):
        for event in events_of(rows, after=runs.state.seq):
            runs.feed(event)


def _detached(voice: Voice, status: str) -> int:
    assert voice.execution_id is not None
    id = voice.execution_id
    voice.document({"execution_id": id, "status": status})
    if not voice.json:
        voice.screen.line(id)
        voice.warn(f"it runs on the server; look on with: noetl events {short(id)}{voice.flag} --follow")
    return OK


async def _look_on(voice: Voice, disk: ServerDisk, runs: Runs) -> int:
    """Until it has ended or is paused; or until whoever looks has seen enough."""
    id = runs.state.execution_id
    with Interrupts(lambda: None) as interrupts:
        try:
            await interrupts.unless(follow(voice, disk, runs))
        except Interrupted:
            return await _left(voice, disk, runs)
        except Unavailable:
            see = f"noetl show {short(id)}{voice.flag}"
            voice.hint = f"the execution is the server's, and goes on there; see: {see}"
            raise
        await _read_on(disk, runs)  # should the stream have ended before its time
        return conclusion(voice, runs)


async def _left(voice: Voice, disk: ServerDisk, runs: Runs) -> int:
    name = f"{short(runs.state.execution_id)}{voice.flag}"
    if voice.json:
        with suppress(Unavailable, NotFound):
            await _read_on(disk, runs)
        voice.document(show_document(runs))
    if not runs.state.live:
        voice.warn(f"it has just ended: noetl show {name}")
    else:
        words = f"see noetl show {name}; noetl cancel {name} ends it"
        voice.warn(f"no longer looking on; the execution goes on at the server: {words}")
    return INTERRUPTED


# Files that are here and not there


async def _look_for_children(disk: ServerDisk, file: str, document: Document) -> None:
    """A playbook that is called by its file can not be found from a server. Raises Usage."""
    if file == files.STDIN:
        return
    for path, start in _called(document.root):
        beside = Path(file).parent / path
        if not beside.is_file():
            continue
        try:
            await disk.catalog.versions(path)
        except NotFound:
            called = parse(beside.read_bytes(), str(beside)).document.find(("metadata", "path"))
            name = called.value if isinstance(called, Scalar) else None
            instead = f', and call it by its path "{one_line(str(name))}"' if name else ""
            words = f'"{one_line(path)}" lies beside this file, and not on the server'
            at = document.mark(start)
            raise Usage(f"{at}: {words}: first noetl register {beside}{disk.flag}{instead}") from None


def _called(tree: Tree | None) -> Iterator[tuple[str, int]]:
    """The paths of the playbooks that tasks call, and where each stands in the text."""
    match tree:
        case Mapping(entries=entries):
            match entries.get("kind"), entries.get("path"):
                case Scalar(value="playbook"), Scalar(value=str(path), start=start) if "{{" not in path:
                    yield path, start
            for each in entries.values():
                yield from _called(each)
        case Sequence(items=items):
            for each in items:
                yield from _called(each)
