"""`runtime()`: the real control and worker on in-memory adapters, for tests and for replayed executions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeAlias

from noetl.adapters.memory import MemoryQueue, MemoryResults, MemoryStore
from noetl.adapters.memory_limits import MemoryLimits
from noetl.checks.checker import check
from noetl.clock import Clock
from noetl.control.deps import ControlHooks, ControlPorts, ControlSettings, ProgramSource
from noetl.control.executions import Control
from noetl.control.live_execution import LiveExecution
from noetl.control.ownership import PartitionOwners
from noetl.control.playbooks import digest_of, document_problems
from noetl.control.saved import SavedAtStart
from noetl.control.sweeper import sweep
from noetl.engine import Event
from noetl.engine.commands import Command, Signal, Start
from noetl.engine.facts import Fact, Processed
from noetl.engine.moves import RunTask
from noetl.engine.state import State
from noetl.errors import NotFound, PlaybookError
from noetl.net.notify import notification_program, split_digest
from noetl.net.program import Program
from noetl.output import JSON, Failure, Output, failed
from noetl.playbook.kinds import Kind, Kinds, record_of
from noetl.ports import EventStore, Limits, Link, SavedValue, WorkQueue
from noetl.runtime.fake_clock import FakeClock
from noetl.tool import NoOptions, Tool, Tools, describe
from noetl.views.log import folded
from noetl.worker.calls import CallContext, Toolbox, ToolRun
from noetl.worker.frame_driver import LogLine
from noetl.worker.keychain import Keychain
from noetl.worker.refs import Lineage
from noetl.worker.worker import Worker, WorkerPorts


class MemoryPrograms:
    """Playbooks by path. The digest of a playbook is its path, so that logs are easy to read."""

    def __init__(self, texts: Mapping[str, str], kinds: Kinds) -> None:
        self.programs: dict[str, Program] = {}
        self._kinds = kinds
        for path, text in texts.items():
            self.add(text, path)

    def add(self, text: str, path: str | None = None) -> str:
        """Check and compile a playbook, and return its path. Raises PlaybookError.

        `path` None: the path in the metadata of the playbook.
        """
        checked = check(text, self._kinds, path or "<playbook>")
        if checked.errors or checked.program is None:
            raise PlaybookError(checked.errors)
        path = path or checked.program.playbook.path
        self.programs[path] = checked.program._replace(digest=path)
        return path

    async def by_digest(self, digest: str) -> Program:
        path, index = split_digest(digest)
        program = self.programs[await self.find(path)]
        return program if index is None else notification_program(program, index)

    async def add_document(self, text: str, caller: str) -> Program:
        checked = check(text, self._kinds, "document")
        if problems := document_problems(checked, await self.by_digest(caller)):
            raise PlaybookError(problems)
        assert checked.program is not None
        program = checked.program._replace(digest=digest_of(text))
        return self.programs.setdefault(program.digest, program)

    async def find(self, path: str, near: str | None = None, version: int | None = None) -> str:
        del near, version
        if path not in self.programs:
            raise NotFound(f'no playbook "{path}"')
        return path


# A tool as a function: it gets the task with its input, and returns data or a whole Output, now or later.
ToolFunction: TypeAlias = Callable[[RunTask], JSON | Output | Awaitable[JSON | Output]]

SLOTS = 4
TIMEOUT_S = 60.0  # of real time, for one execution: a test that waits longer has a bug
OWNER_TTL_S = 1e9  # virtual time may jump by years, and there is no other server


class CommittedEvent(NamedTuple):
    """An event with the execution that it belongs to."""

    execution_id: str
    seq: int
    at: datetime
    fact: Fact


class RunResult(NamedTuple):
    """How an execution ended."""

    id: str
    status: str
    output: JSON  # the data that the playbook returned
    ctx: dict[str, JSON]
    error: Failure | None  # the first failure that no arc handled


class MemoryState:
    """What outlives a process: the log and the stored results. A second runtime continues with them."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.store = MemoryStore(clock, 1)
        self.results = MemoryResults()

    def save(self, path: str, values: Mapping[str, JSON]) -> None:
        """Put values of saved.* of a playbook."""
        for key, value in values.items():
            self.store.saved.add(path, SavedValue(key, value, self.clock.now(), None))


class RuntimeParts(NamedTuple):
    """Parts of the runtime that a test replaces, to observe or to disturb it."""

    store: MemoryStore | None = None
    log: EventStore | None = None  # between control and the store
    queue: WorkQueue | None = None
    link: Callable[[Link], Link] | None = None  # between worker and control: it gets the control
    keychain: Keychain | None = None
    call: ToolRun | None = None  # all calls go here; `tools` still says which kinds exist
    limits: Limits | None = None  # None: a new one in memory
    hooks: ControlHooks = ControlHooks()
    on_log_line: Sequence[Callable[[LogLine], None]] = ()
    results: MemoryResults | None = None
    programs: ProgramSource | None = None  # None: the `playbooks` of the runtime
    tools: Tools | None = None  # None: those that are installed, and those of the runtime
    around: Callable[[ToolRun], ToolRun] | None = None  # gets the function that makes calls, and replaces it


class MemoryRuntime:
    """The async context manager that `runtime` returns. Its worker runs between enter and exit.

    `events` are the committed events of all executions, in the order of the commits. `control`, `worker`,
    `store`, `queue`, `results` and `link` are the real parts, for tests of the engine itself.
    """

    def __init__(
        self,
        playbooks: Mapping[str, str],
        tools: Mapping[str, ToolFunction | type[Tool]] | ToolFunction,
        clock: Clock,
        settings: ControlSettings,
        parts: RuntimeParts,
        *,
        slots: int,
        timeout_s: float,
    ) -> None:
        self.clock = clock
        self._slots, self._timeout_s = slots, timeout_s
        self.events: list[CommittedEvent] = []
        self.store = parts.store or MemoryStore(clock, 1)
        self.queue, self.results = parts.queue or MemoryQueue(), parts.results or MemoryResults()
        self._functions, classes = _functions_and_classes(tools)
        self._default = None if isinstance(tools, Mapping) else tools
        self.programs = MemoryPrograms(playbooks, _kinds(self._functions, classes))
        self.owners = PartitionOwners(self.store, clock, "test", ttl_s=OWNER_TTL_S, count=1)
        log = parts.log or self.store
        limits = parts.limits or MemoryLimits()
        ports = ControlPorts(log, self.queue, self.results, limits=limits, pending=self.store)
        hooks = parts.hooks._replace(
            on_commit=(*parts.hooks.on_commit, self._record),
            on_start=(*parts.hooks.on_start, SavedAtStart(self.store.saved)),
        )
        programs = parts.programs or self.programs
        self.control = Control(ports, programs, self.owners, clock, settings, hooks=hooks)
        self.link = parts.link(self.control) if parts.link else self.control
        self.toolbox = Toolbox(parts.tools or _tools(classes), self.results, parts.keychain, Lineage(self.link))
        call = parts.call or self._call
        self._call_tool = parts.around(call) if parts.around else call
        self.worker = Worker(
            "worker",
            WorkerPorts(self.link, self.queue, self.results, parts.keychain),
            self._hold_clock,
            clock,
            on_log_line=parts.on_log_line,
        )
        self._ended: dict[str, asyncio.Event] = {}
        self._serving: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> MemoryRuntime:
        await self.owners.renew(self.control.set_time)
        self.add_slots(self._slots)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._serving.clear()
        self.control.timers.close()
        await self.toolbox.close()

    @property
    def waits(self) -> list[float]:
        """The seconds of every wait: before retries and in `wait` tasks. Only a FakeClock records them."""
        return self.clock.waits if isinstance(self.clock, FakeClock) else []

    # Executions

    async def run(self, playbook: str | Path, workload: dict[str, JSON] | None = None) -> RunResult:
        """Start a playbook and wait until it has ended.

        `playbook`: YAML text, a file, or the path of one of the `playbooks` of the runtime. Raises
        PlaybookError, and TimeoutError after `timeout_s` of real time.
        """
        id = await self.start(playbook, workload)
        await self.end(id)
        state = self.state(id)
        output = state.end_output
        return RunResult(id, state.status, output and output.data, state.ctx, state.failure)

    async def start(
        self, playbook: str | Path, workload: dict[str, JSON] | None = None, *, id: str | None = None
    ) -> str:
        """Start a playbook, and return the id of the execution as soon as the start is committed."""
        if isinstance(playbook, Path):
            playbook = playbook.read_text("utf-8")
        path = self.programs.add(playbook) if "\n" in playbook else playbook
        if path not in self.programs.programs:
            known = ", ".join(sorted(self.programs.programs)) or "none"
            hint = f"give its text, its file as a Path, or a path of the playbooks of the runtime: {known}"
            raise NotFound(f'no playbook "{path}": {hint}')
        id = id or self.clock.new_id()
        await self.link.start(id, path, Start(workload=workload or {}))
        return id

    async def end(self, id: str) -> None:
        async with asyncio.timeout(self._timeout_s):
            await self._ended.setdefault(id, asyncio.Event()).wait()

    def state(self, id: str) -> State:
        """The state that the log of an execution folds to."""
        return folded(id, self.log(id))

    def log(self, id: str) -> list[Event]:
        return [Event(each.seq, each.at, each.fact) for each in self.events if each.execution_id == id]

    async def command(self, id: str, command: Command) -> None:
        await self.link.command(id, command)

    async def signal(self, id: str, name: str, data: JSON = None) -> None:
        """Send a signal, for which a `wait` task may wait."""
        await self.command(id, Signal(name=name, data=data))

    async def sweep(self) -> None:
        """One round of the sweeper: it finds lost work and finishes cancelled executions."""
        await sweep(self.control)

    # The worker

    def add_slots(self, count: int) -> None:
        """Let the worker run more calls at once."""
        self._serving += [asyncio.ensure_future(self.worker.serve()) for _ in range(count)]

    async def _hold_clock(self, called: RunTask, context: CallContext) -> Output:
        """Virtual time does not pass while a tool works, so that no timeout ends it."""
        with self.clock.hold() if isinstance(self.clock, FakeClock) else nullcontext():
            return await self._call_tool(called, context)

    async def _call(self, called: RunTask, context: CallContext) -> Output:
        function = self._functions.get(called.task.kind, self._default)
        if function is None:
            return await self.toolbox(called, context)
        return await _call_function(function, called)

    def _record(self, live: LiveExecution, events: list[Event]) -> None:
        for event in events:
            self.events.append(CommittedEvent(live.id, event.seq, event.at, event.fact))
            if isinstance(event.fact, Processed):
                self._ended.setdefault(live.id, asyncio.Event()).set()


def runtime(
    playbooks: Mapping[str, str] | None = None,
    *,
    tools: Mapping[str, ToolFunction | type[Tool]] | ToolFunction | None = None,
    clock: Clock | None = None,
    slots: int = SLOTS,
    settings: ControlSettings | None = None,
    parts: RuntimeParts | None = None,
    timeout_s: float = TIMEOUT_S,
) -> MemoryRuntime:
    """An in-memory runtime: `async with runtime(...) as memory: await memory.run(text)`.

    `playbooks`: path → YAML text, for playbooks that call each other.
    `tools`: kind → a function or a tool class. A function gets the task (`task.input`, `task.attempt`,
    `task.key`) and returns data or an Output; an exception is a failure of the call. Kinds without an entry
    are the installed tools. One function instead of a mapping serves all kinds.
    `clock`: by default a FakeClock that advances whenever all tasks wait. It stands still while a tool works;
    a tool that takes virtual time awaits `memory.clock.sleep`.
    `slots`: the number of calls at once. `timeout_s`: the real time that an execution may take.
    `settings` and `parts` are for tests of the engine.
    """
    return MemoryRuntime(
        playbooks or {},
        tools or {},
        clock or FakeClock(auto_advance=True),
        settings or ControlSettings(),
        parts or RuntimeParts(),
        slots=slots,
        timeout_s=timeout_s,
    )


async def _call_function(function: ToolFunction, called: RunTask) -> Output:
    try:
        found = function(called)
        if inspect.isawaitable(found):
            found = await found
    except Exception as error:  # noqa: BLE001  # a tool call is a boundary, as in the worker's toolbox
        return failed("tool", f"{type(error).__name__}: {error}")
    return found if isinstance(found, Output) else Output(data=found)


def _functions_and_classes(
    tools: Mapping[str, ToolFunction | type[Tool]] | ToolFunction,
) -> tuple[dict[str, ToolFunction], dict[str, type[Tool]]]:
    functions: dict[str, ToolFunction] = {}
    classes: dict[str, type[Tool]] = {}
    for kind, tool in tools.items() if isinstance(tools, Mapping) else ():
        if isinstance(tool, type):
            classes[kind] = tool
        else:
            functions[kind] = tool
    return functions, classes


@cache
def _installed() -> Kinds:
    return Tools.installed().kinds()


def _kinds(functions: Mapping[str, ToolFunction], classes: Mapping[str, type[Tool]]) -> Kinds:
    """The installed kinds and those of the test. A kind that exists only as a function takes any `input`."""
    kinds = {**_installed(), **{kind: describe(each) for kind, each in classes.items()}}
    for kind in functions.keys() - kinds.keys():
        fields, knobs = record_of(NoOptions, f"{kind} task"), record_of(NoOptions, f"spec.{kind}")
        kinds[kind] = Kind(name=kind, doc="A function of a test.", fields=fields, knobs=knobs, free_input=True)
    return kinds


def _tools(classes: Mapping[str, type[Tool]]) -> Tools:
    found = {each.name: each for each in entry_points(group="noetl.tools")}
    for kind, each in classes.items():
        found[kind] = EntryPoint(kind, f"{each.__module__}:{each.__qualname__}", "noetl.tools")
    return Tools(found)
