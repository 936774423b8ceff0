"""Breakpoints on a cluster: workers hold frames by conditions, and any server debugs any execution."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.engine.commands import SetBreakpoint
from noetl.session.debugger import DebuggedTree, RemoteDebugger
from noetl.session.remote import RemoteSession
from noetl.views.debugging import HoldDocument
from tests.api.test_debug import LETTERS
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.playbooks import HEAD

EXECUTIONS = 6  # both servers own some of them, with a probability of 31 in 32
LARGE = LETTERS.replace("return x * 2", "return x * 40_000").replace(
    "input: {x: '{{ read.data }}'}", "input: {x: '{{ read.data | length }}'}"
)


async def _held(debugger: RemoteDebugger, place: str) -> HoldDocument:
    while True:
        for each in (await debugger.document()).held:
            if each.place == place:
                return each


async def _debugs(cluster: Cluster) -> None:
    point = SetBreakpoint(place="start.keep", when="iter.letter == 'b' and (read.data | length) > 0")
    async with cluster.client(0) as first, cluster.client(1) as second:
        for number in range(EXECUTIONS):
            text, length = (LARGE, 40_000) if number % 2 else (LETTERS, 2)
            id = (await first.start_text(text, breakpoints=[point])).execution_id
            debugger = RemoteDebugger(second.http, id)
            hold = await _held(debugger, "start.keep")
            assert (hold.at, hold.iteration, hold.error) == ("start#1[1]", 1, None)
            assert (await debugger.evaluate("read.data | length", hold.at)).value == length
            await debugger.step(hold.at)
            assert (await _held(debugger, "start.read")).at == "start#1[2]"
            await debugger.set_breakpoint("end_it")
            await debugger.release()
            await _held(RemoteDebugger(first.http, id), "end_it")
            await debugger.change("end_it#1", {"ctx.last": number})
            await debugger.release()
            shown = await cluster.ended(id)
            assert (shown.status, shown.output and shown.output.data) == ("ok", number)


CALLS = HEAD.replace("path: t", "path: shop/calls") + (
    "executor: {spec: {entry_step: load}}\nworkflow:\n- step: load\n  tool: {kind: playbook, path: shop/letters}\n"
)


async def _debugs_children(cluster: Cluster) -> None:
    point = SetBreakpoint(place="load/start.keep", when="iter.letter == 'b' and (read.data | length) > 0")
    async with cluster.client(0) as first, cluster.client(1) as second:
        await first.register(LETTERS)
        for number in range(EXECUTIONS):
            id = (await first.start_text(CALLS, breakpoints=[point])).execution_id
            tree = DebuggedTree(RemoteSession(second.http), id)
            while not (held := [each for each in await tree.read() if each.document.held]):
                pass
            (child,) = held
            (hold,) = child.document.held
            assert (child.label(hold), hold.place, hold.error) == ("load#1/start#1[1]", "start.keep", None)
            assert (await child.debugger.evaluate("read.data", hold.at)).value == "bb"
            if number % 2:
                await tree.clear()
            else:
                await child.debugger.release()
            shown = await cluster.ended(id)
            assert (shown.status, shown.output and shown.output.data) == ("ok", "cc")


def test_a_child_on_any_server_is_held_as_soon_as_it_starts(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=2)) as cluster:
        asyncio.run(_debugs_children(cluster))


def test_any_server_debugs_any_execution(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=2)) as cluster:
        asyncio.run(_debugs(cluster))
