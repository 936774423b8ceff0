"""Debug an execution of a file or of a server: breakpoints, held runs and frames, values, changes, and continuing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from noetl.api.debugging import BreakpointRequest, ChangeRequest, ContinueRequest, EvaluateRequest, StepRequest
from noetl.control.log_pages import read_runs
from noetl.control.playbooks import CompiledPlaybooks
from noetl.engine.commands import Change, ClearBreakpoint, Command, Release, SetBreakpoint
from noetl.engine.facts import BreakpointCleared, BreakpointSet, Fact, HoldReleased, ScopeChanged
from noetl.errors import NotFound, Rejected
from noetl.output import JSON
from noetl.paging import PageReader
from noetl.playbook.source import parse
from noetl.session.local_admin import local_user
from noetl.views.debugging import (
    DebugDocument,
    EvaluationDocument,
    HoldDocument,
    Lines,
    OpenChildDocument,
    PlaceScopes,
    Reads,
    ScopesDocument,
    debug_document,
    with_held_children,
)
from noetl.views.runs import Runs

if TYPE_CHECKING:
    from noetl.client.http import HttpTransport
    from noetl.net.program import Program
    from noetl.session.local import LocalSession
    from noetl.session.protocol import Session

T = TypeVar("T")
_EFFECTS: dict[type, type] = {
    SetBreakpoint: BreakpointSet, ClearBreakpoint: BreakpointCleared, Release: HoldReleased, Change: ScopeChanged
}  # fmt: skip


class Debugger(Protocol):
    """All commands raise Rejected when they do not fit the execution."""

    async def document(self) -> DebugDocument:
        """Its breakpoints, and what is held, also in the children that it waits for."""
        ...

    async def scopes(self, at: str | None = None) -> ScopesDocument:
        """What templates see where a run or frame is held; None: in the whole execution."""
        ...

    async def evaluate(self, expression: str, at: str | None = None) -> EvaluationDocument: ...

    async def set_breakpoint(self, place: str, when: str | None = None, *, once: bool = False) -> None:
        """Before a step, `fetch`, or a task, `fetch.get_page`; `*`: before the next step or task.

        `load/fetch`: before `fetch` in the playbooks that step `load` calls from now on.
        """
        ...

    async def clear_breakpoint(self, place: str | None = None) -> None:
        """None: all of them. What is held stays held."""
        ...

    async def release(self, at: str | None = None) -> None:
        """Let a held run or frame continue; None: all of them."""
        ...

    async def step(self, at: str) -> None:
        """Let a held run or frame continue for one task."""
        ...

    async def change(self, at: str, set: dict[str, JSON]) -> None:
        """`ctx.total` → value, also of `step` and `iter`. The log records it."""
        ...


class Debugged(NamedTuple):
    """An execution, or a child that it waits for."""

    within: str  # the calls around it, `load#1/`; "": it is the execution itself
    execution_id: str
    debugger: Debugger
    document: DebugDocument

    def label(self, hold: HoldDocument) -> str:
        """The id of what is held, behind the calls around it: `load#1/fetch#1`."""
        return f"{self.within}{hold.at}"


class DebuggedTree:
    """An execution and the children that it waits for, whose breakpoints hold it as well."""

    def __init__(self, session: Session, execution_id: str) -> None:
        self._session = session
        self._id = execution_id
        self._debuggers: dict[str, Debugger] = {}
        self.starting = False  # a child was called, but has no log yet

    async def read(self) -> list[Debugged]:
        """The execution itself first."""
        self.starting = False
        return [each async for each in self._read("", self._id)]

    async def release(self) -> None:
        """Let everything that is held go on."""
        for each in await self.read():
            if each.document.held:
                with _unless_ended(each):
                    await each.debugger.release()

    async def clear(self) -> None:
        """Remove all breakpoints, and let everything that is held go on."""
        for each in await self.read():
            with _unless_ended(each):
                await each.debugger.clear_breakpoint()
        await self.release()

    async def _read(self, within: str, execution_id: str) -> AsyncIterator[Debugged]:
        debugger = self._debuggers.get(execution_id)
        if debugger is None:
            debugger = self._debuggers[execution_id] = self._session.debugger(execution_id)
        try:
            document = await debugger.document()
        except NotFound:
            if not within:
                raise
            self.starting = True
            return
        yield Debugged(within, execution_id, debugger, document)
        for child in document.children:
            async for each in self._read(f"{within}{child.at}/", child.execution_id):
                yield each


@contextmanager
def _unless_ended(each: Debugged) -> Iterator[None]:
    """A child may have ended since it was read."""
    try:
        yield
    except Rejected:
        if not each.within:
            raise


class LocalDebugger:
    """Implements Debugger on a database file, whether this process runs the execution, another one, or none."""

    def __init__(self, session: LocalSession, execution_id: str) -> None:
        self._session = session
        self._id = execution_id
        self._runs = Runs(execution_id)
        self._compiled: tuple[Program, Lines] | None = None

    async def _read(self) -> Runs:
        runs = self._runs
        await read_runs(self._session.log, runs)
        if not runs.state.seq:
            raise NotFound(f"no execution {self._id}")
        return runs

    async def _program(self, runs: Runs) -> tuple[Program, Lines]:
        if self._compiled is None:
            catalog, digest = self._session.catalog, runs.state.digest
            program = await CompiledPlaybooks(catalog, self._session.installed.kinds).by_digest(digest)
            text = await catalog.get(digest)
            self._compiled = program, Lines(program, parse(text.text, text.path).document)
        return self._compiled

    async def document(self) -> DebugDocument:
        return await with_held_children(await self._own_document(), self._child_document)

    async def _own_document(self) -> DebugDocument:
        runs = await self._read()
        return debug_document(runs, (await self._program(runs))[1])

    async def _child_document(self, child: OpenChildDocument) -> DebugDocument | None:
        with suppress(NotFound):  # it has no log yet
            return await LocalDebugger(self._session, child.execution_id)._own_document()
        return None

    async def _scopes_at(self, at: str | None) -> PlaceScopes:
        runs = await self._read()
        return PlaceScopes((await self._program(runs))[0], runs.state, at)

    async def scopes(self, at: str | None = None) -> ScopesDocument:
        return (await self._scopes_at(at)).document()

    async def evaluate(self, expression: str, at: str | None = None) -> EvaluationDocument:
        results = self._session.store.results
        return await (await self._scopes_at(at)).evaluate(expression, Reads(results.get, PageReader(results).item))

    async def set_breakpoint(self, place: str, when: str | None = None, *, once: bool = False) -> None:
        await self._send(SetBreakpoint(place=place, when=when, once=once, by=local_user()))

    async def clear_breakpoint(self, place: str | None = None) -> None:
        if place is not None or (await self._read()).state.breakpoints:
            await self._send(ClearBreakpoint(place=place, by=local_user()))

    async def release(self, at: str | None = None) -> None:
        await self._send(Release(at=at, by=local_user()))

    async def step(self, at: str) -> None:
        await self._send(Release(at=at, step=True, by=local_user()))

    async def change(self, at: str, set: dict[str, JSON]) -> None:
        await self._send(Change(at=at, set=set, by=local_user()))

    async def _send(self, command: Command) -> None:
        if await self._session.command_here(self._id, command):
            return
        from noetl.engine.breakpoints import accept_debug
        from noetl.session.local_commands import deliver

        runs = await self._read()
        program, _ = await self._program(runs)
        assert isinstance(command, SetBreakpoint | ClearBreakpoint | Release | Change)
        accept_debug(program, runs.state, command)  # another process would refuse it without an answer
        expected = _EFFECTS[type(command)]

        def is_effect(fact: Fact) -> bool:
            return isinstance(fact, expected)

        head = await self._session.listing.head(self._id)
        await deliver(self._session.store, head, command, is_effect, self._session.hint)


class RemoteDebugger:
    """Implements Debugger on a server."""

    def __init__(self, http: HttpTransport, execution_id: str) -> None:
        self._http = http
        self._path = f"/executions/{quote(execution_id)}"

    async def document(self) -> DebugDocument:
        return await self._http.get(f"{self._path}/debug", DebugDocument)

    async def scopes(self, at: str | None = None) -> ScopesDocument:
        response = await self._http.request("GET", f"{self._path}/debug/scopes", params={"at": at})
        return response.read(ScopesDocument)

    async def evaluate(self, expression: str, at: str | None = None) -> EvaluationDocument:
        body = EvaluateRequest(expression=expression, at=at)
        response = await self._http.request("POST", f"{self._path}/debug/evaluate", body=body)
        return response.read(EvaluationDocument)

    async def set_breakpoint(self, place: str, when: str | None = None, *, once: bool = False) -> None:
        body = BreakpointRequest(place=place, when=when, once=once)
        await self._http.request("POST", f"{self._path}/breakpoints", body=body)

    async def clear_breakpoint(self, place: str | None = None) -> None:
        await self._http.request("DELETE", f"{self._path}/breakpoints", params={"place": place})

    async def release(self, at: str | None = None) -> None:
        await self._http.request("POST", f"{self._path}/debug/continue", body=ContinueRequest(at=at))

    async def step(self, at: str) -> None:
        await self._http.request("POST", f"{self._path}/debug/step", body=StepRequest(at=at))

    async def change(self, at: str, set: dict[str, JSON]) -> None:
        await self._http.request("POST", f"{self._path}/debug/set", body=ChangeRequest(at=at, set=set))
