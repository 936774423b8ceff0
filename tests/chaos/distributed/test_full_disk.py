"""The disk of NATS is full (test 9): work that needs NATS waits, all other work continues, no data is lost.

A stream that has found a full disk accepts no more messages until NATS restarts, even if there is space again (NATS
2.15). NoETL recreates the queue, which holds only copies. Results are in NATS alone: they wait for a restart by the
operator.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from noetl.adapters.nats.queue import PUT_TIMEOUT_S, STREAM, TIMEOUTS_MAX
from noetl.adapters.nats.results import BUCKET
from noetl.ports import REPLY_TIMEOUT_S
from tests.chaos.disks import SmallDisk, small_disk
from tests.chaos.distributed.audit import audited, report
from tests.chaos.distributed.cluster import BUSY_S, LEASE_S, ChaosCluster, Plan, until
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import CHAIN, Load, head

MEGABYTES = 32
SMALL, LARGE = 20, 6
SWEEP_S = 10  # an unclaimed pointer is sent again after this time
LARGE_RESULT = head("large") + (
    "workload: {url: ''}\nworkflow:\n- step: start\n"
    '  tool: {kind: http, method: POST, url: "{{ workload.url }}/large?of={{ execution_id }}&mb=1"}\n'
    '  set: {ctx.large_ref: "{{ output.ref }}"}\n  next: {arcs: [{step: read}]}\n'
    '- {step: read, tool: {kind: resolve, ref: "{{ ctx.large_ref }}", set: {ctx.chars: "{{ output.data | length }}"}}}\n'
)


@asynccontextmanager
async def opened_on_a_small_disk() -> AsyncIterator[tuple[ChaosCluster, SmallDisk]]:
    folder = Path(tempfile.mkdtemp(prefix="noetl-chaos-", dir="/tmp"))
    folder.chmod(0o711)
    cluster = ChaosCluster(folder, Plan())
    try:
        with small_disk(cluster.folder.path / "nats", MEGABYTES) as disk:
            try:
                await cluster.open()
                yield cluster, disk
            finally:
                await cluster.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_full_disk_of_nats_stops_only_work_that_needs_it_and_loses_no_fact() -> None:
    asyncio.run(_fill_nats())


async def _fill_nats() -> None:
    async with opened_on_a_small_disk() as (cluster, disk), serving() as effects:
        load = Load(cluster, effects)
        await load.register(CHAIN, LARGE_RESULT)
        await load.start("chaos/large")  # this creates the bucket
        await cluster.until_all_ended()
        living = {name: child.pid for name, child in cluster.children.items()}

        disk.fill()
        large = [await load.start("chaos/large") for _ in range(LARGE)]
        small = [await load.start("chaos/chain", ms=20) for _ in range(SMALL)]
        await until(lambda: _found_disk_full(cluster, STREAM, f"OBJ_{BUCKET}"))
        disk.make_space()
        by_itself = await until(lambda: _all_ok(cluster, small))
        assert {name: child.pid for name, child in cluster.children.items()} == living

        await cluster.kill("nats")
        await cluster.start("nats")
        restarted = await until(lambda: _all_ok(cluster, large))
        await audited(load)
        report(
            "a full disk of NATS",
            executions=len(load.acked),
            queue_goes_on_by_itself_after_s=by_itself,
            results_go_on_after_a_restart_s=restarted,
            repeats=effects.repeats,
        )
        assert by_itself <= TIMEOUTS_MAX * PUT_TIMEOUT_S + LEASE_S / 3 + BUSY_S  # about 10 s on an idle machine
        assert restarted <= SWEEP_S + REPLY_TIMEOUT_S + LEASE_S + BUSY_S


async def _found_disk_full(cluster: ChaosCluster, *streams: str) -> bool:
    """NATS has failed to write to each stream."""
    said = (cluster.logs / "nats.log").read_text("utf-8", "replace").splitlines()
    failed = [line for line in said if "no space left on device" in line]
    return all(any(stream in line for line in failed) for stream in streams)


async def _all_ok(cluster: ChaosCluster, ids: list[str]) -> bool:
    query = "SELECT count(*) FROM noetl.heads WHERE status = 'ok' AND execution_id = ANY($1::text[])"
    ((count,),) = await cluster.rows(query, ids)
    return bool(count == len(ids))
