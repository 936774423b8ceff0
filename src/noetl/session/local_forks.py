"""Forks of executions in a database file: the request, and its plan (D114)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from noetl.control.forks import ForkPlanner
from noetl.control.playbooks import Playbooks
from noetl.engine.commands import Start
from noetl.engine.facts import ForkOrigin
from noetl.output import JSON
from noetl.session.declared import declared_in, values_for
from noetl.session.errors import StartRefused
from noetl.session.execution import Execution, StartNotes, fork_origin
from noetl.session.sources import PlaybookFile, document_of, find_source, load_text
from noetl.worker.task_files import TaskFiles

if TYPE_CHECKING:
    from noetl.fork.plan import ForkPlan
    from noetl.session.local import LocalSession
    from noetl.session.protocol import ForkSpec


class LocalFork(NamedTuple):
    """The parts of the start of a fork."""

    digest: str
    workload: dict[str, JSON]
    origin: ForkOrigin
    notes: StartNotes


async def plan_fork(session: LocalSession, execution_id: str, wanted: ForkSpec) -> ForkPlan:
    playbooks = _playbooks(session)
    fork = await _prepare(session, execution_id, wanted, playbooks, listed=False)
    program = await playbooks.by_digest(fork.digest)
    start = Start(workload=fork.workload, fork=fork.origin)
    planner = ForkPlanner(session.store.store, playbooks, TaskFiles(session.installed.tools))
    return (await planner.plan(session.clock.new_id(), program, start, session.clock.now())).plan


async def prepare_fork(session: LocalSession, execution_id: str, wanted: ForkSpec) -> LocalFork:
    """The corrected text is registered. Raises StartRefused."""
    return await _prepare(session, execution_id, wanted, _playbooks(session), listed=True)


def _playbooks(session: LocalSession) -> Playbooks:
    return Playbooks(session.catalog, session.installed.kinds, lambda path: path.read_text("utf-8"))


async def _prepare(
    session: LocalSession, execution_id: str, wanted: ForkSpec, playbooks: Playbooks, *, listed: bool
) -> LocalFork:
    """`listed` False: the text is kept, but is no version of its path."""
    old = Execution(session, execution_id)
    await old.require_started()
    info = await old.info()
    origin = fork_origin(info, wanted)
    if wanted.playbook is None:
        text = await session.catalog.get(info.digest)
        loaded, digest = load_text(text, session.installed.kinds), text.digest
    else:
        source = find_source(wanted.playbook)
        loaded, known = await session.load(source, None, wanted.dialect)
        if loaded.runnable is None:
            raise StartRefused(loaded.problems, loaded.text, None)
        file = source.origin if isinstance(source, PlaybookFile) else None
        digest = known or await playbooks.add(loaded.canonical, file, loaded.runnable, listed=listed)
    declared = declared_in(document_of(loaded))
    values = values_for(wanted.workload, declared)
    return LocalFork(digest, values, origin, StartNotes(loaded.problems, loaded.notes, declared))
