"""Compensation with children and with large results, as control and a worker do it (D116)."""

from __future__ import annotations

import asyncio

import pytest

from noetl.engine.commands import Cancel
from noetl.engine.facts import ForChild, ForSignal, FrameParked
from noetl.engine.moves import RunTask
from noetl.errors import Rejected
from noetl.output import JSON, Output, failed
from noetl.testing import runtime
from noetl.testing.memory_runtime import MemoryRuntime, ToolFunction
from tests.playbooks import HEAD

NOTES = "compensate: {tool: {kind: note, input: {word: 'undo %s', of: '{{ output.data }}'}}}"
CHILD = HEAD.replace("path: t", "path: child") + (
    "workload: {breaks: false}\nworkflow:\n- step: start\n  tool: {kind: note, input: {word: inner}}\n"
    f"  {NOTES % 'inner'}\n"
    "  next: {arcs: [{step: breaks, when: '{{ workload.breaks }}'}, {step: waits}]}\n"
    "- step: breaks\n  tool: {kind: note, input: {word: breaks}}\n- step: waits\n  tool: {kind: wait, signal: go}\n"
)
PARENT = HEAD.replace("path: t", "path: parent") + (
    "workload: {breaks: false}\nworkflow:\n- step: start\n  tool: {kind: note, input: {word: outer}}\n"
    f"  {NOTES % 'outer'}\n"
    "  next: {arcs: [{step: call}]}\n"
    "- step: call\n  tool: {kind: playbook, path: child, input: {breaks: '{{ workload.breaks }}'}}\n"
    f"  {NOTES % 'call'}\n"
)


class Notes:
    """The tool `note`: what it was called with, in order."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __call__(self, called: RunTask) -> JSON | Output:
        self.words.append(called.input["word"])
        return failed("note", "no") if called.input["word"] == "breaks" else called.input["word"]


async def until_parked(memory: MemoryRuntime, kind: type[ForSignal | ForChild]) -> None:
    """Until a frame of any execution waits for this."""
    while not any(isinstance(each.fact, FrameParked) and isinstance(each.fact.until, kind) for each in memory.events):
        await memory.clock.sleep(0.1)


async def ended(memory: MemoryRuntime, id: str) -> None:
    """Sweep until an execution has ended."""
    while memory.state(id).live:
        await memory.sweep()
        await memory.clock.sleep(1)


def test_a_child_that_fails_undoes_its_steps_before_its_parent_does() -> None:
    async def work() -> None:
        notes = Notes()
        async with runtime({"parent": PARENT, "child": CHILD}, tools={"note": notes}) as memory:
            done = await memory.run("parent", {"breaks": True})
            assert (done.status, done.error and done.error.kind) == ("error", "playbook")
        assert notes.words == ["outer", "inner", "breaks", "undo inner", "undo outer"]

    asyncio.run(work())


def test_a_cancel_with_compensation_reaches_children_first() -> None:
    async def work() -> None:
        notes = Notes()
        async with runtime({"parent": PARENT, "child": CHILD}, tools={"note": notes}) as memory:
            id = await memory.start("parent")
            await until_parked(memory, ForSignal)
            await memory.command(id, Cancel(compensate=True))
            await ended(memory, id)
            assert memory.state(id).status == "cancelled"
        assert notes.words == ["outer", "inner", "undo inner", "undo outer"]

    asyncio.run(work())


def test_a_cancel_without_compensation_undoes_nothing_in_children() -> None:
    async def work() -> None:
        notes = Notes()
        async with runtime({"parent": PARENT, "child": CHILD}, tools={"note": notes}) as memory:
            id = await memory.start("parent")
            await until_parked(memory, ForSignal)
            await memory.command(id, Cancel())
            await ended(memory, id)
            with pytest.raises(Rejected, match="execution-over"):
                await memory.command(id, Cancel(compensate=True))
        assert notes.words == ["outer", "inner"]

    asyncio.run(work())


def test_a_compensation_reads_a_large_result_as_if_it_were_small() -> None:
    """D52: the same with 1 KB and with 10 MB, also of a loop, whose results are only in the log."""
    text = HEAD + (
        "workload: {size: 1}\nworkflow:\n- step: start\n  tool: {kind: make, input: {size: '{{ workload.size }}'}}\n"
        "  compensate: {tool: {kind: note, input: {word: '{{ output.data | length }} {{ _prev[0] }}'}}}\n"
        "  next: {arcs: [{step: loop}]}\n"
        "- step: loop\n  loop: {in: [1, 2, 3], iterator: n}\n  tool: {kind: make, input: {size: '{{ workload.size }}'}}\n"
        "  compensate: {tool: {kind: note, input: {word: '{{ output.data | map(\"length\") | sum }} in all'}}}\n"
        "  next: {arcs: [{step: breaks}]}\n"
        "- step: breaks\n  tool: {kind: note, input: {word: breaks}}\n"
    )

    async def work(size: int) -> list[str]:
        notes = Notes()
        tools: dict[str, ToolFunction] = {"note": notes, "make": lambda called: "x" * called.input["size"]}
        async with runtime({"t": text}, tools=tools) as memory:
            done = await memory.run("t", {"size": size})
            compensation = memory.state(done.id).compensation
            assert compensation is not None
            assert compensation.failed == {}
        return notes.words

    for size in (10, 100_000):
        assert asyncio.run(work(size)) == ["breaks", f"{3 * size} in all", f"{size} x"]
