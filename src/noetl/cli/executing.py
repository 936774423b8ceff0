"""`noetl run`, `resume` and `retry`: check what is asked for, then carry the execution on in this process."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

from noetl.cli import files
from noetl.cli.answering import Voice, answered, tell_problems
from noetl.cli.asked import Named, RunAsked
from noetl.cli.carrying import TOLD, Kit, carry_on, conclude
from noetl.cli.checking import show_notes
from noetl.cli.exits import WRONG, Usage
from noetl.cli.finding import find_execution
from noetl.cli.loading import Refused, load
from noetl.cli.looking import opened
from noetl.cli.workload import given_workload, undeclared
from noetl.config import database_path
from noetl.engine.commands import Resume, Retry
from noetl.engine.state import LIVE
from noetl.errors import Problem, Unavailable
from noetl.net.check import Checked
from noetl.net.words import count
from noetl.output import JSON, Failure
from noetl.playbook.source import Document, Scalar, parse
from noetl.ports import Text
from noetl.wiring import Disk, House, open_disk, record_refused

Work: TypeAlias = Callable[[Voice, Disk, str], Awaitable[int]]

UNDECLARED_MAX = 5  # keys that nobody declared and that a warning names


class Ready(NamedTuple):
    """A playbook that can run, and what it is to run with."""

    checked: Checked
    workload: dict[str, JSON]
    origin: str | None  # its file, whose neighbours it may call
    kit: Kit


def run_run(asked: RunAsked) -> int:
    return answered(asked.form, lambda voice: _run(voice, asked))


def _run(voice: Voice, asked: RunAsked) -> int:
    if asked.file == files.STDIN == asked.workload:
        raise Usage("standard input can be read only once: it is the playbook or the workload")
    workload = given_workload(asked.workload, asked.sets)
    kit = Kit.installed()
    loaded = load(asked.file, asked.dialect, kit.kinds)
    origin = None if asked.file == files.STDIN else str(Path(asked.file).absolute())
    if isinstance(loaded, Refused):
        document = parse(loaded.text, loaded.file).document
        return _refuse(voice, asked, document, loaded.problems, workload)
    checked = loaded.checked
    if checked.errors or checked.playbook is None:
        return _refuse(voice, asked, checked.document, checked.problems, workload)
    show_notes(loaded.notes, voice.errors)
    _warn(voice, asked, checked, workload)
    ready = Ready(checked, workload, origin, kit)
    disk = open_disk(database_path(asked.db))
    try:
        return asyncio.run(_start(voice, disk, ready))
    finally:
        disk.close()


def _warn(voice: Voice, asked: RunAsked, checked: Checked, workload: dict[str, JSON]) -> None:
    warnings = sum(problem.severity == "warning" for problem in checked.problems)
    if warnings:
        voice.warn(f"{count(warnings, 'warning')}; see noetl check {asked.file}")
    assert checked.playbook is not None
    unknown = list(undeclared(checked.playbook.workload, workload))
    for words in unknown[:UNDECLARED_MAX]:
        voice.warn(words)
    if len(unknown) > UNDECLARED_MAX:
        voice.warn(f"… and {len(unknown) - UNDECLARED_MAX:,} keys more that it does not have")


async def _start(voice: Voice, disk: Disk, ready: Ready) -> int:
    execution_id = disk.database.clock.new_id()

    async def begin(house: House) -> None:
        checked = ready.checked
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
    errors = count(sum(problem.severity == "error" for problem in found), "problem")
    failure = Failure(kind="problems", message=f"the playbook has {errors}")
    path = document.find(("metadata", "path"))
    if isinstance(path, Scalar) and isinstance(path.value, str) and path.value:
        digest = hashlib.sha256(document.text.encode()).hexdigest()
        text = Text(digest, path.value, document.text)
        try:
            voice.execution_id = asyncio.run(_record(database_path(asked.db), text, workload, failure))
        except Unavailable as error:
            voice.warn(f"this request is not on record: {error}")
    tell_problems(voice, found, document.text)
    if voice.execution_id is not None:
        voice.warn(f"{failure.message}; the request is on record as {voice.execution_id}")
    return WRONG


async def _record(path: Path, text: Text, workload: dict[str, JSON], failure: Failure) -> str:
    disk = open_disk(path)
    try:
        return await record_refused(disk, text, workload, failure)
    finally:
        disk.close()


# What is on record goes on


def run_resume(asked: Named) -> int:
    return with_execution(asked, _resume)


def run_retry(asked: Named, step: str | None, *, from_start: bool) -> int:
    retry = Retry(step=step, from_start=from_start)

    async def work(voice: Voice, disk: Disk, execution_id: str) -> int:
        async def begin(house: House) -> None:
            await house.command(execution_id, retry)
            await house.take_up(execution_id)

        return await carry_on(voice, disk, Kit.installed(), execution_id, begin)

    return with_execution(asked, work)


def with_execution(asked: Named, work: Work) -> int:
    """The execution that is meant is found, and what is known of it is told should something go wrong."""

    async def found(voice: Voice, disk: Disk) -> int:
        execution_id = await find_execution(disk.listing, asked.given)
        head = await disk.listing.head(execution_id)
        voice.execution_id, voice.status = execution_id, TOLD.get(head.status, head.status)
        return await work(voice, disk, execution_id)

    def begun(voice: Voice) -> int:
        with opened(asked.db) as disk:
            return asyncio.run(found(voice, disk))

    return answered(asked.form, begun)


async def _resume(voice: Voice, disk: Disk, execution_id: str) -> int:
    head = await disk.listing.head(execution_id)
    if head.status not in LIVE:
        voice.warn(f"it has ended already: {head.status}")
        return await conclude(voice, disk, execution_id)

    async def begin(house: House) -> None:
        if head.status == "paused":
            await house.command(execution_id, Resume())
        await house.take_up(execution_id)

    return await carry_on(voice, disk, Kit.installed(), execution_id, begin)
