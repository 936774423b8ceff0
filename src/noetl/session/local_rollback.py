"""A rollback in a database file. The audit trail records it, under the name of the local user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.api.playbooks import RollbackResponse
from noetl.control.playbooks import CompiledPlaybooks
from noetl.control.rollback import plan_rollback
from noetl.control.triggers import declare
from noetl.session.local_admin import local_entry

if TYPE_CHECKING:
    from noetl.session.local import LocalSession


async def roll_back(session: LocalSession, path: str, version: int, *, dry_run: bool) -> RollbackResponse:
    """Raises NotFound, Rejected or PlaybookError."""
    programs = CompiledPlaybooks(session.catalog, session.installed.kinds)
    plan = await plan_rollback(session.catalog, programs.by_digest, path, version)
    if not dry_run:
        await session.catalog.put(plan.text)
        await declare(session.store.triggers, await programs.by_digest(plan.wanted.digest), session.clock.now())
        detail = f"from version {plan.current.version}"
        await session.store.audit.add([local_entry(session.clock, "register", "rollback", f"{path}@{version}", detail)])
    return RollbackResponse(
        path=path,
        version=version,
        replaces=plan.current.version,
        digest=plan.wanted.digest,
        triggers=plan.triggers,
        stopped=plan.stopped,
        done=not dry_run,
    )
