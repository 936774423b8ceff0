"""What every tool must keep, as a test class: a tool's own test is a subclass that makes one.

Its example runs as a whole playbook, on a disk of its own; the rest is asked of the tool itself.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import indent
from typing import NamedTuple
from unittest import SkipTest

import msgspec

from noetl.adapters.memory.results import MemoryResults
from noetl.check.checker import check
from noetl.clock import SystemClock
from noetl.engine.state import State
from noetl.output import DATA_LEVELS_MAX, JSON, Output, clean
from noetl.playbook.kinds import record_of
from noetl.playbook.shapes import KeyShape
from noetl.runtime import EmbeddedRuntime, open_local_store
from noetl.tool import Call, Tool, Tools, describe

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example, path: example}\n"
HOSTILE: tuple[JSON, ...] = (
    None, "", "\0", "\ud800", "x" * 10_000, "../../etc/passwd", "'; --", "{{ 1 }}",
    0, -1, 2**70, -0.5, 1e308, True, [], ["\0"], [None], {}, {"": None}, {"\0": "\ud800"},
    {"type": "blob", "locator": {}},
)  # fmt: skip
HOSTILE_KNOBS: tuple[JSON, ...] = (None, "", "\0", "much", 0, -1, 2**70, -0.5, 1e308, True, [], [None], {})
CALL_S = 120.0  # much longer than any call here takes
END_S = 30.0  # for what was told to end
BEGIN_S = 0.3  # after so long, a call that takes for ever has begun


class ToolContract:
    """Documented, runnable as it says, never surprised by what it is given, and gone when it is cancelled."""

    needs: str | None = None  # what its example needs from outside; None: it runs anywhere
    reads_around = False  # its example reads workload, ctx or the keychain of the playbook around it
    spec: dict[str, JSON] = {}  # knobs for calls with hostile fields, so that none of them takes long

    @abstractmethod
    def make(self) -> Tool:
        """A fresh one, as a worker makes it."""

    def fields(self) -> dict[str, JSON]:
        """Fields of a quick call: one of them at a time is replaced by something hostile."""
        return {}

    def endless(self) -> dict[str, JSON] | None:
        """Fields of a call that takes for ever; None: there is no such call."""
        return None

    def call(self, spec: dict[str, JSON]) -> Call:
        """What it is called with besides its fields: here is the place for a credential."""
        return call_of(spec)

    def test_it_says_what_it_is_and_what_each_field_and_knob_means(self) -> None:
        tool = type(self.make())
        assert (tool.__doc__ or "").strip(), "the class has no docstring"
        keys = {**record_of(tool.Input, "input").keys, **record_of(tool.Spec, "spec").keys}
        assert [name for name, key in keys.items() if not _is_told(key)] == []
        assert {name for group in tool.one_of for name in group} <= set(tool.Input.__struct_fields__)

    def test_its_example_is_a_sound_playbook(self) -> None:
        if self.reads_around:
            raise SkipTest("the example reads what the playbook around it has")
        tool = type(self.make())
        checked = check(example_of(tool), {tool.kind: describe(tool)}, "example.yaml")
        assert [str(problem) for problem in checked.problems if problem.severity != "info"] == []
        assert checked.verdict == "sound"

    def test_its_example_runs(self) -> None:
        if self.needs is not None:
            raise SkipTest(f"the example needs {self.needs}")
        state = asyncio.run(_executed(type(self.make())))
        assert state.status == "ok", state.failure

    def test_what_does_not_fit_is_answered_and_never_raised(self) -> None:
        async def work() -> None:
            tool = self.make()
            try:
                for name in tool.Input.__struct_fields__:
                    for value in HOSTILE:
                        await self._answered(tool, {**self.fields(), name: value}, self.spec)
                for name in tool.Spec.__struct_fields__:
                    for value in HOSTILE_KNOBS:
                        await self._answered(tool, self.fields(), {**self.spec, name: value})
            finally:
                await tool.close()

        with _nothing_left():
            asyncio.run(work())

    async def _answered(self, tool: Tool, fields: dict[str, JSON], spec: dict[str, JSON]) -> None:
        """A worker hands over what the struct takes; the rest it has refused before."""
        try:
            input = msgspec.convert(fields, tool.Input)
        except (msgspec.ValidationError, UnicodeEncodeError):  # the latter for half a surrogate pair
            return
        async with asyncio.timeout(CALL_S):
            output = await tool.run(input, self.call(spec))
        assert isinstance(output, Output)
        assert (output.status == "error") == (output.error is not None), output
        for part in (output.data, output.own, output.meta, output.ref):
            assert clean(part) == part, f"no clean JSON with {fields}, or deeper than {DATA_LEVELS_MAX}"

    def test_a_call_that_is_cancelled_leaves_nothing_behind(self) -> None:
        fields = self.endless()
        if fields is None:
            raise SkipTest("no call of this tool takes for ever")

        async def work() -> None:
            tool = self.make()
            running = asyncio.create_task(tool.run(msgspec.convert(fields, tool.Input), self.call(self.spec)))
            done, _ = await asyncio.wait((running,), timeout=BEGIN_S)
            assert not done, f"it came to an end: {running}"
            running.cancel()
            async with asyncio.timeout(CALL_S):
                await asyncio.wait((running,))
            assert running.cancelled(), "it swallowed the cancellation"
            await tool.close()

        with _nothing_left():
            asyncio.run(work())


def call_of(spec: dict[str, JSON] | None = None) -> Call:
    """A call as a worker makes it, with an empty result store."""
    return Call("e1/start#1/1", 1, "e1", {}, None, spec or {}, MemoryResults())


def example_of(tool: type[Tool]) -> str:
    """A playbook of one step, with the tool's example as its only task."""
    text = getattr(tool, "example", "")
    assert text.strip(), f"{tool.__name__} has no `example`"
    return f"{HEAD}workflow:\n- step: start\n  tool:\n{indent(text, '    ')}\n"


async def _executed(tool: type[Tool]) -> State:
    point = EntryPoint(tool.kind, f"{tool.__module__}:{tool.__qualname__}", "noetl.tools")
    with tempfile.TemporaryDirectory() as folder:
        clock = SystemClock()
        disk = open_local_store(Path(folder) / "noetl.db", clock)
        house = EmbeddedRuntime(disk, clock, Tools({tool.kind: point}))
        house.open()
        try:
            digest = await house.playbooks.add(example_of(tool), None)
            async with asyncio.timeout(CALL_S):
                return await house.wait_until_idle(await house.start(digest, {}))
        finally:
            await house.close()
            disk.close()


def _is_told(key: KeyShape) -> bool:
    return bool(key.doc.strip()) and not key.doc.rstrip().endswith(".")


class _Held(NamedTuple):
    """What this process has."""

    threads: set[threading.Thread]
    open_files: int  # 0: the system does not say
    processes: set[str]

    def beyond(self, before: _Held) -> bool:
        """It has more than it had. Fewer may be what others have let go of meanwhile."""
        more = self.threads - before.threads or self.processes - before.processes
        return bool(more) or self.open_files > before.open_files


@contextmanager
def _nothing_left() -> Iterator[None]:
    """No thread, no process and no open file more than before."""
    before = _held()
    yield
    for thread in _held().threads - before.threads:
        thread.join(END_S)  # A pool may be shut down, and its last thread on its way out.
    left = _held()
    assert not left.beyond(before), f"something was left behind: {before} before, {left} now"


def _held() -> _Held:
    files = Path("/proc/self/fd")
    tasks = Path("/proc/self/task")
    processes = {pid for task in (tasks.iterdir() if tasks.is_dir() else ()) for pid in _children(task)}
    open_files = len(os.listdir(files)) if files.is_dir() else 0
    return _Held(set(threading.enumerate()), open_files, processes)


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # the system does not say, or the thread is gone by now
        return []
