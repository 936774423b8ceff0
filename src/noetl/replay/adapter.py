"""The replay adapter: it answers the calls of a worker from stubs or records instead of the outside world.

Pure tools run for real. A call that no source answers is a miss: a failure, null, or a real call.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from noetl.engine.moves import RunTask
from noetl.errors import Damaged
from noetl.output import JSON, Output, failed
from noetl.playbook.model import SAFE
from noetl.replay.programs import ReplayPrograms
from noetl.template import TemplateError
from noetl.views.test_results import Origin
from noetl.worker.calls import CallContext, ToolRun
from noetl.worker.frame_driver import CURRENT_FRAME

OnMiss: TypeAlias = Literal["fail", "null", "live"]


class MadeCall(NamedTuple):
    """A call that a worker makes, with its place in the execution."""

    execution_id: str
    frame: str  # "fetch#2[17]"
    step: str  # or the block
    task: str
    occurrence: int  # of the task in its frame, from 1; a call that a rule retries counts again
    attempt: int  # from 1: attempts of rules and tries of spec.retry
    number: int  # of the task in this replay, from 1
    called: RunTask

    @property
    def name(self) -> str:
        return f"{self.step}.{self.task}"

    @property
    def scope(self) -> dict[str, JSON]:
        """What the templates of a stub see."""
        called = self.called
        return {
            **called.scope,
            "input": {**called.scope["input"], **called.fields, **called.input},
            "call": {
                "step": self.step, "task": self.task, "kind": called.task.kind,
                "attempt": self.attempt, "number": self.number,
            },
        }  # fmt: skip

    def fits(self, name: str) -> bool:
        """Whether a person means it by this name: `step` or `step.task`."""
        return name in (self.step, self.name)


class Answer(NamedTuple):
    """What a source says about a call."""

    output: Output | None  # None: make the call
    origin: Origin
    seq: int = 0  # of the recorded fact; 0: it is not from a record


class AnswerSource(Protocol):
    """Stubs, a cassette or a log."""

    async def answer(self, call: MadeCall) -> Answer | None:
        """None: another source may know. Raises TemplateError, or Damaged when a stored body is missing."""
        ...


class AnsweredCall(NamedTuple):
    """A call and how it was answered."""

    call: MadeCall
    origin: Origin
    output: Output
    seq: int = 0  # of the recorded fact; 0: it is not from a record


class KillPoint(NamedTuple):
    """The process ends after this call has returned, before its result is reported."""

    name: str
    number: int


class ReplayAdapter:
    """Implements ToolRun around another one, which makes real calls."""

    def __init__(
        self,
        programs: ReplayPrograms,
        sources: Sequence[AnswerSource],
        on_miss: OnMiss = "fail",
        kill_after: KillPoint | None = None,
        *,
        live_if_safe: bool = False,
    ) -> None:
        """`live_if_safe`: a call that no record answers for its input is made, if its author says that it is safe."""
        self.calls: list[AnsweredCall] = []
        self.errors: list[str] = []  # answers that could not be made: a wrong template of a stub, a missing body
        self.killed = asyncio.Event()
        self.running = 0  # real calls
        self.restarts = 0  # processes that died
        self._programs = programs
        self._sources = sources
        self._on_miss: OnMiss = on_miss
        self._kill_after = kill_after
        self._live_if_safe = live_if_safe
        self._numbers: Counter[str] = Counter()  # by name
        self._occurrences: dict[tuple[str, str, str], dict[tuple[str, int], int]] = {}
        self._tries: Counter[tuple[str, int]] = Counter()  # by entry and attempt, since the process started

    @property
    def misses(self) -> list[AnsweredCall]:
        return [each for each in self.calls if each.origin == "missing"]

    def around(self, tool: ToolRun) -> ToolRun:
        """The function that a worker calls instead of `tool`."""

        async def run(called: RunTask, context: CallContext) -> Output:
            made = self._made(called)
            found = await self._answer(made)
            if found.output is not None:
                output = found.output
                if called.task.schema is not None:
                    output = called.task.schema.applied(output)
            else:
                output = await self._live(tool, called, context)
            self.calls.append(AnsweredCall(made, found.origin, output, found.seq))
            await self._die_after(made)
            return output

        return run

    def restart(self) -> None:
        """A new process continues: it repeats calls whose results were lost."""
        self.restarts += 1
        self.killed.clear()
        self._kill_after = None
        self._tries.clear()

    def _made(self, called: RunTask) -> MadeCall:
        current = CURRENT_FRAME.get()
        assert current is not None, "a worker makes the call"
        execution_id, frame, _ = current
        task = called.task
        step = self._programs.owner_of(task.source)
        entry = called.entry, called.attempt
        # A repeated call has the occurrence of the first one, also after a restart.
        known = self._occurrences.setdefault((execution_id, frame, task.name), {})
        occurrence = known.setdefault(entry, len(known) + 1)
        self._tries[entry] += 1
        name = f"{step}.{task.name}"
        self._numbers[name] += 1
        attempt = called.attempt + self._tries[entry] - 1
        return MadeCall(execution_id, frame, step, task.name, occurrence, attempt, self._numbers[name], called)

    async def _answer(self, made: MadeCall) -> Answer:
        try:
            for source in self._sources:
                if (found := await source.answer(made)) is not None:
                    is_live = found.origin == "changed" and self._may_be_live(made)
                    return found._replace(output=None, origin="live") if is_live else found
        except (TemplateError, Damaged) as error:
            self.errors.append(f"{made.name}: {error}")
            return Answer(failed("tool", str(error)), "missing")
        if made.called.task.pure:
            return Answer(None, "pure")
        if self._may_be_live(made):
            return Answer(None, "live")
        match self._on_miss:
            case "live":
                return Answer(None, "live")
            case "null":
                return Answer(Output(), "missing")
        return Answer(
            failed("tool", f"nothing answers {made.name}: the call has no stub and was not recorded"), "missing"
        )

    def _may_be_live(self, made: MadeCall) -> bool:
        task = made.called.task
        return self._live_if_safe and task.spec.get(SAFE) is True and self._programs.has_credentials(task)

    async def _live(self, tool: ToolRun, called: RunTask, context: CallContext) -> Output:
        self.running += 1
        try:
            return await tool(called, context)
        finally:
            self.running -= 1

    async def _die_after(self, made: MadeCall) -> None:
        point = self._kill_after
        if point is not None and made.fits(point.name) and made.number >= point.number:
            self.killed.set()
            await asyncio.get_running_loop().create_future()  # the worker is cancelled here


def with_own_part(output: Output, call: MadeCall) -> Output:
    """The output with all fields of the tool's own part, such as `output.http.status`."""
    own: dict[str, JSON] = {}
    for name, defaults in call.called.task.own.items():
        given = output.own.get(name)
        own[name] = {**defaults, **(given if isinstance(given, dict) else {})}
        if name == "http" and own[name].get("status") is None and output.status == "ok":
            own[name]["status"] = 200
    return replace(output, own={**output.own, **own}) if own else output
