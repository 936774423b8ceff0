"""The contract of tools. The test of a tool is a subclass that creates one.

The example of the tool runs as a playbook with its own database; the other tests call the tool directly.
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

from noetl.adapters.memory import MemoryResults
from noetl.checks.checker import check
from noetl.clock import SystemClock
from noetl.engine.state import State
from noetl.output import DATA_LEVELS_MAX, JSON, Output, clean
from noetl.playbook.kinds import record_of
from noetl.playbook.shapes import KeyShape
from noetl.runtime.embedded import EmbeddedRuntime, open_local_store
from noetl.tool import Call, Tool, Tools, describe

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example, path: example}\n"
HOSTILE: tuple[JSON, ...] = (
    None, "", "\0", "\ud800", "x" * 10_000, "../../etc/passwd", "'; --", "{{ 1 }}",
    0, -1, 2**70, -0.5, 1e308, True, [], ["\0"], [None], {}, {"": None}, {"\0": "\ud800"},
    {"type": "blob", "locator": {}},
)  # fmt: skip
HOSTILE_KNOBS: tuple[JSON, ...] = (None, "", "\0", "much", 0, -1, 2**70, -0.5, 1e308, True, [], [None], {})
CALL_S = 120.0  # much longer than any call of a test
END_S = 30.0  # for threads that are ending
BEGIN_S = 0.3  # after which an endless call has begun


class ToolContract:
    """A tool is documented, its example runs, it refuses invalid input, and it can be cancelled."""

    needs: str | None = None  # an external service that the example needs
    reads_around = False  # the example uses workload, ctx or keychain of a playbook
    spec: dict[str, JSON] = {}  # settings that keep calls with hostile fields short

    @abstractmethod
    def make(self) -> Tool:
        """A new tool, as a worker creates it."""

    def fields(self) -> dict[str, JSON]:
        """Fields of a short call. The tests replace one of them at a time with a hostile value."""
        return {}

    def endless(self) -> dict[str, JSON] | None:
        """Fields of an endless call; None: the tool has none."""
        return None

    def call(self, spec: dict[str, JSON]) -> Call:
        """The call without the fields, for example with a credential."""
        return call_of(spec)

    def test_the_tool_and_each_of_its_fields_are_documented(self) -> None:
        tool = type(self.make())
        assert (tool.__doc__ or "").strip(), "the class has no docstring"
        structs = [tool.Input, tool.Spec, *([] if tool.OutputPart is None else [tool.OutputPart])]
        keys = [(name, key) for each in structs for name, key in record_of(each, "fields").keys.items()]
        assert [name for name, key in keys if not _is_documented(key)] == []
        assert {name for group in tool.one_of for name in group} <= set(tool.Input.__struct_fields__)
        if tool.OutputPart is not None:
            assert tool.output, "the tool has an `OutputPart` without a name in `output`"
            part = msgspec.to_builtins(tool.OutputPart())  # each field has a default
            assert clean(part) == part

    def test_the_example_is_a_sound_playbook(self) -> None:
        if self.reads_around:
            raise SkipTest("the example uses the playbook around it")
        tool = type(self.make())
        checked = check(example_of(tool), {tool.kind: describe(tool)}, "example.yaml")
        assert [str(problem) for problem in checked.problems if problem.severity != "info"] == []
        assert checked.verdict == "sound"

    def test_the_example_runs(self) -> None:
        if self.needs is not None:
            raise SkipTest(f"the example needs {self.needs}")
        state = asyncio.run(_executed(type(self.make())))
        assert state.status == "ok", state.failure

    def test_invalid_input_is_an_error_output_and_no_exception(self) -> None:
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
        """A worker passes only input that fits the struct; it refuses the rest itself."""
        try:
            input = msgspec.convert(fields, tool.Input)
        except (msgspec.ValidationError, UnicodeEncodeError):  # the latter for a lone surrogate
            return
        async with asyncio.timeout(CALL_S):
            output = await tool.run(input, self.call(spec))
        assert isinstance(output, Output)
        assert (output.status == "error") == (output.error is not None), output
        for part in (output.data, output.own, output.meta, output.ref):
            assert clean(part) == part, f"no clean JSON with {fields}, or deeper than {DATA_LEVELS_MAX}"
        if tool.OutputPart is not None and output.own:
            assert list(output.own) == [tool.output]
            own = output.own[str(tool.output)]
            assert set(own) <= set(tool.OutputPart.__struct_encode_fields__), "the output has undescribed fields"
            msgspec.convert(own, tool.OutputPart)

    def test_a_cancelled_call_leaves_nothing_behind(self) -> None:
        fields = self.endless()
        if fields is None:
            raise SkipTest("the tool has no endless call")

        async def work() -> None:
            tool = self.make()
            running = asyncio.create_task(tool.run(msgspec.convert(fields, tool.Input), self.call(self.spec)))
            done, _ = await asyncio.wait((running,), timeout=BEGIN_S)
            assert not done, f"the call ended: {running}"
            running.cancel()
            async with asyncio.timeout(CALL_S):
                await asyncio.wait((running,))
            assert running.cancelled(), "the tool swallowed the cancellation"
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
        runtime = EmbeddedRuntime(disk, clock, Tools({tool.kind: point}))
        runtime.open()
        try:
            digest = await runtime.playbooks.add(example_of(tool), None)
            async with asyncio.timeout(CALL_S):
                return await runtime.wait_until_idle(await runtime.start(digest, {}))
        finally:
            await runtime.close()
            disk.close()


def _is_documented(key: KeyShape) -> bool:
    return bool(key.doc.strip()) and not key.doc.rstrip().endswith(".")


class _Resources(NamedTuple):
    """The resources of this process."""

    threads: set[threading.Thread]
    open_files: int  # 0: unknown on this system
    processes: set[str]

    def exceeds(self, before: _Resources) -> bool:
        """Whether there are more than before. Other code may have released some meanwhile."""
        more = self.threads - before.threads or self.processes - before.processes
        return bool(more) or self.open_files > before.open_files


@contextmanager
def _nothing_left() -> Iterator[None]:
    """Fail if there are more threads, processes or open files than before."""
    before = _resources()
    yield
    for thread in _resources().threads - before.threads:
        thread.join(END_S)  # a thread of a pool that is shutting down
    left = _resources()
    assert not left.exceeds(before), f"resources were left behind: {before} before, {left} now"


def _resources() -> _Resources:
    files = Path("/proc/self/fd")
    tasks = Path("/proc/self/task")
    processes = {pid for task in (tasks.iterdir() if tasks.is_dir() else ()) for pid in _children(task)}
    open_files = len(os.listdir(files)) if files.is_dir() else 0
    return _Resources(set(threading.enumerate()), open_files, processes)


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # unknown on this system, or the thread has ended
        return []
