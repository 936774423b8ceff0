"""`noetl run`, `resume` and `retry`: check what is asked for, then carry the execution on in this process.

When a server is meant, it does both: what is said to it is in remote_running, imported only then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from noetl.check.checker import Checked, check
from noetl.cli import files
from noetl.cli.answering import Voice, answered, tell_refused
from noetl.cli.asked import Named, RunAsked
from noetl.cli.carrying import TOLD, Kit, carry_on, conclude
from noetl.cli.checking import show_notes
from noetl.cli.contexts import flag_at, server_at
from noetl.cli.exits import Usage
from noetl.cli.failing import refuse_what_never_began
from noetl.cli.finding import find_execution
from noetl.cli.loading import Loaded, Refused, load, registered
from noetl.cli.looking import Shelf, opened
from noetl.cli.workload import given_workload, undeclared
from noetl.control.refusals import Refusal, path_in, reason_of
from noetl.engine.commands import Resume, Retry
from noetl.engine.state import LIVE
from noetl.errors import PlaybookError, Problem, Unavailable
from noetl.net.describe import count
from noetl.output import JSON
from noetl.playbook.source import Document, parse
from noetl.runtime import EmbeddedRuntime, LocalStore, open_local_store, record_refused
from noetl.runtime.settings import database_path

if TYPE_CHECKING:
    from noetl.cli.remote import ServerDisk

Work: TypeAlias = Callable[[Voice, LocalStore, str], Awaitable[int]]
WorkThere: TypeAlias = "Callable[[Voice, ServerDisk, str], Awaitable[int]]"  # the same, at a server

UNDECLARED_MAX = 5  # keys that nobody declared and that a warning names


class Ready(NamedTuple):
    """A playbook that can run, and what it is to run with."""

    checked: Checked
    workload: dict[str, JSON]
    origin: str | None  # its file, whose neighbours it may call
    kit: Kit
    digest: str | None = None  # of one that is registered, and stays what it is; None: it is put now


def run_run(asked: RunAsked) -> int:
    return answered(asked.form, lambda voice: _run(voice, asked))


def _run(voice: Voice, asked: RunAsked) -> int:
    if (server := server_at(asked.db)) is not None:
        from noetl.cli.remote_running import run_there

        return run_there(voice, asked, server)
    if asked.detach:
        raise Usage("--detach needs a server, see --server: what runs here ends with this process")
    if asked.file == files.STDIN == asked.workload:
        raise Usage("standard input can be read only once: it is the playbook or the workload")
    workload = given_workload(asked.workload, asked.sets)
    voice.flag = flag_at(asked.db)
    kit = Kit.installed()
    known = registered(asked.file, asked.db)
    if known is None:
        loaded = load(asked.file, asked.dialect, kit.kinds)
        origin = None if asked.file == files.STDIN else str(Path(asked.file).absolute())
    else:
        loaded, origin = Loaded(check(known.text, kit.kinds, known.path)), known.origin
    if isinstance(loaded, Refused):
        document = parse(loaded.text, loaded.file).document
        return _refuse(voice, asked, document, loaded.problems, workload)
    checked = loaded.checked
    if checked.errors or checked.playbook is None:
        return _refuse(voice, asked, checked.document, checked.problems, workload)
    show_notes(loaded.notes, voice.errors)
    warnings = sum(problem.severity == "warning" for problem in checked.problems)
    warn_of(voice, asked.file, warnings, checked.playbook.workload, workload)
    ready = Ready(checked, workload, origin, kit, known.digest if known else None)
    disk = _opened(voice, asked.db)
    try:
        return asyncio.run(_start(voice, disk, ready))
    finally:
        disk.close()


def _opened(voice: Voice, db: str | None) -> LocalStore:
    """Of a path that was given it is said when nothing was there: it may be a slip of the pen."""
    path = database_path(db)
    new = db is not None and not path.exists()
    disk = open_local_store(path)
    if new:
        voice.warn(f"a new database: {path}")
    return disk


def warn_of(
    voice: Voice, file: str, warnings: int, declared: dict[str, JSON], workload: dict[str, JSON]
) -> None:
    """Of what is doubtful in a playbook, and of values that it does not know."""
    if warnings:
        voice.warn(f"{count(warnings, 'warning')}; see noetl check {file}")
    unknown = list(undeclared(declared, workload))
    for words in unknown[:UNDECLARED_MAX]:
        voice.warn(words)
    if len(unknown) > UNDECLARED_MAX:
        voice.warn(f"… and {len(unknown) - UNDECLARED_MAX:,} keys more that it does not have")


async def _start(voice: Voice, disk: LocalStore, ready: Ready) -> int:
    execution_id = disk.database.clock.new_id()

    async def begin(house: EmbeddedRuntime) -> None:
        checked, digest = ready.checked, ready.digest
        if digest is None:
            digest = await house.playbooks.add(checked.document.text, ready.origin, checked)
        await house.start(digest, ready.workload, execution_id=execution_id)

    return await carry_on(voice, disk, ready.kit, execution_id, begin)


# A playbook that can not run


def _refuse(
    voice: Voice,
    asked: RunAsked,
    document: Document,
    found: tuple[Problem, ...],
    workload: dict[str, JSON],
) -> int:
    """The request is on record all the same (D65, D78), unless nobody can say under which path."""
    path = path_in(document)
    if path is not None:
        digest = hashlib.sha256(document.text.encode()).hexdigest()
        refusal = Refusal(path, workload, reason_of(PlaybookError(found)), digest)
        try:
            voice.execution_id = asyncio.run(_record(_opened(voice, asked.db), refusal))
        except Unavailable as error:
            voice.warn(f"this request is not on record: {error}")
    return tell_refused(voice, found, document.text)


async def _record(disk: LocalStore, refusal: Refusal) -> str:
    try:
        return await record_refused(disk, refusal)
    finally:
        disk.close()


# What is on record goes on


def run_resume(asked: Named) -> int:
    async def there(voice: Voice, disk: ServerDisk, execution_id: str) -> int:
        from noetl.cli.remote_running import resume_there

        return await resume_there(voice, disk, execution_id, detach=asked.detach)

    return with_execution(asked, _resume, there)


def run_retry(asked: Named, step: str | None, *, from_start: bool) -> int:
    retry = Retry(step=step, from_start=from_start)

    async def work(voice: Voice, disk: LocalStore, execution_id: str) -> int:
        await refuse_what_never_began(disk, execution_id)

        async def begin(house: EmbeddedRuntime) -> None:
            await house.command(execution_id, retry)
            await house.adopt(execution_id)

        return await carry_on(voice, disk, Kit.installed(), execution_id, begin)

    async def there(voice: Voice, disk: ServerDisk, execution_id: str) -> int:
        from noetl.cli.remote_running import retry_there

        return await retry_there(voice, disk, execution_id, step, from_start=from_start, detach=asked.detach)

    return with_execution(asked, work, there)


def with_execution(asked: Named, work: Work, there: WorkThere) -> int:
    """The execution that is meant is found, and what is known of it is told should something go wrong."""

    async def found(voice: Voice, disk: Shelf) -> int:
        if asked.detach and isinstance(disk, LocalStore):
            raise Usage("--detach needs a server, see --server: what runs here ends with this process")
        voice.flag = disk.flag
        execution_id = await find_execution(disk.listing, asked.given, voice.flag)
        head = await disk.listing.head(execution_id)
        voice.execution_id, voice.status = execution_id, TOLD.get(head.status, head.status)
        if isinstance(disk, LocalStore):
            return await work(voice, disk, execution_id)
        from noetl.cli.remote import ServerDisk

        assert isinstance(disk, ServerDisk)
        return await there(voice, disk, execution_id)

    def begun(voice: Voice) -> int:
        with opened(asked.db) as disk:
            return asyncio.run(found(voice, disk))

    return answered(asked.form, begun)


async def _resume(voice: Voice, disk: LocalStore, execution_id: str) -> int:
    head = await disk.listing.head(execution_id)
    if head.status not in LIVE:
        voice.warn(f"it has ended already: {head.status}")
        return await conclude(voice, disk, execution_id)

    async def begin(house: EmbeddedRuntime) -> None:
        if head.status == "paused":
            await house.command(execution_id, Resume())
        await house.adopt(execution_id)

    return await carry_on(voice, disk, Kit.installed(), execution_id, begin)
