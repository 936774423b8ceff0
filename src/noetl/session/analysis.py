"""Questions about executions and playbooks that need a compiled program: why a step ran, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from noetl.control.log_pages import fold_log
from noetl.control.playbooks import Playbooks
from noetl.errors import PlaybookError
from noetl.playbook.reader import read
from noetl.session.errors import UsageError
from noetl.session.sources import PlaybookFile, find_registered, find_source
from noetl.views.difference import ComparedFold, ExecutionDifference, PartChange, execution_difference, playbook_changes
from noetl.views.why import Why, WhyFold

if TYPE_CHECKING:
    from noetl.playbook.kinds import Kinds
    from noetl.playbook.model import Playbook
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session


async def explain_step(execution: Execution, step: str | None, kinds: Kinds) -> Why:
    """Why a step ran, waited or did not run. Raises UsageError when the playbook has no such step."""
    info = await execution.info()
    await execution.require_started()
    program = await Playbooks(execution.session.catalog, kinds).by_digest(info.digest)
    if step is None or (step not in program.steps and step not in program.blocks):
        problem = "name the step to explain" if step is None else f'the playbook has no step "{step}"'
        raise UsageError(f"{problem}; its steps are {', '.join((*program.steps, *program.blocks))}")
    fold = WhyFold(program, info.id, step)
    await fold_log(execution.session.log, info.id, fold.feed)
    return fold.result()


class PlaybookDifference(NamedTuple):
    """By meaning: layout and comments do not count."""

    changes: tuple[PartChange, ...]

    @property
    def differs(self) -> bool:
        return bool(self.changes)


async def compare(
    session: Session, a: str | PlaybookFile, b: str | PlaybookFile, kinds: Kinds
) -> ExecutionDifference | PlaybookDifference:
    """Two executions, or two playbooks: files, or registered ones as `path@version`.

    Raises UsageError, and PlaybookError when a playbook cannot be read.
    """
    one, other = await _playbook(session, a, kinds), await _playbook(session, b, kinds)
    if one is not None and other is not None:
        return PlaybookDifference(tuple(playbook_changes(one, other)))
    if isinstance(a, PlaybookFile) or isinstance(b, PlaybookFile) or one is not None or other is not None:
        name = b if one is not None else a
        raise UsageError(f'"{name}" is not a playbook: name two playbooks or two executions')
    return execution_difference(*[await _compared(session, name) for name in (a, b)])


async def _compared(session: Session, name: str) -> ComparedFold:
    id = (await session.execution(name)).id
    fold = ComparedFold(id)
    await fold_log(session.log, id, fold.feed)
    return fold


async def _playbook(session: Session, name: str | PlaybookFile, kinds: Kinds) -> Playbook | None:
    """None: neither a file nor a registered playbook, but perhaps an execution. Raises PlaybookError, NotFound."""
    source = find_source(name)
    if isinstance(source, PlaybookFile):
        return read_playbook(source.data, source.name, kinds)
    try:
        return read_playbook((await find_registered(session.catalog, source)).text, source, kinds)
    except UsageError:
        if "@" in source or "/" in source:
            raise
        return None


def read_playbook(text: str | bytes, name: str, kinds: Kinds) -> Playbook:
    """Raises PlaybookError."""
    found = read(text, kinds, name)
    if found.playbook is None or any(each.severity == "error" for each in found.problems):
        raise PlaybookError(found.problems)
    return found.playbook
