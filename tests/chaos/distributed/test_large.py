"""Large data in a cluster with faults: ten thousand iterations, and damaged results of ten megabytes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nats.aio.client import Client

from noetl.adapters.nats.results import BUCKET, NatsResults
from noetl.adapters.postgres.results import PostgresResults
from noetl.engine import facts
from noetl.errors import Damaged
from noetl.output import JSON
from noetl.worker.result_stores import NamedStore, ResultStores
from tests.chaos.distributed.audit import Verdict, audited, report
from tests.chaos.distributed.cluster import CLOCK, ChaosCluster, Plan, opened, until
from tests.chaos.distributed.effects import serving
from tests.chaos.distributed.load import Load, head

MANY = 10_000
WIDE = 100
LOG_BYTES_MAX = 600  # for each iteration
GROWTH_MB_MAX = 150
LARGE_MB = 10
LARGE = 20
ROTTEN = 4
INLINE_MAX = 65_536

LONG = head("long") + (
    "workload: {url: ''}\nworkflow:\n- step: start\n"
    f"  loop: {{in: '{{{{ range({MANY}) }}}}', iterator: n, spec: {{mode: parallel, max_in_flight: {WIDE}}}}}\n"
    "  tool: {kind: noop, input: {n: '{{ iter.n }}', square: '{{ iter.n * iter.n }}'}}\n"
)


def test_ten_thousand_iterations_with_three_kills_end_once_each_and_need_little_memory() -> None:
    asyncio.run(_run_long())


async def _run_long() -> None:
    async with opened(Plan(slots=64, workers=2, named=True)) as cluster, serving() as effects:
        load = Load(cluster, effects)
        await load.register(LONG)
        before = {name: cluster.rss_mb(name) for name in cluster.servers}
        begun, id = CLOCK.monotonic(), await load.start("chaos/long")
        for share, name in ((0.2, "worker-1"), (0.4, "server"), (0.6, "worker-2")):
            await _until_has(cluster, share * MANY)
            victim = await _owner(cluster) if name == "server" else name
            await cluster.kill(victim)
            await cluster.start(victim)
        await cluster.until_all_ended()
        seconds, growth = CLOCK.monotonic() - begun, _growth(cluster, before)
        verdict = await audited(load)
        ((size,),) = await cluster.rows("SELECT sum(length(body)) FROM noetl.log WHERE execution_id = $1", id)
        report(
            "a long loop",
            iterations=MANY,
            kills=3,
            iterations_per_s=MANY / seconds,
            server_growth_mb=growth,
            log_bytes_per_iteration=size / MANY,
            stuck_most_s=verdict.worst_stuck_s(),
        )
        done = [e.fact.index for e in verdict.logs[id] if isinstance(e.fact, facts.IterationDone)]
        assert sorted(done) == list(range(MANY))
        assert growth <= GROWTH_MB_MAX
        assert size / MANY <= LOG_BYTES_MAX


async def _until_has(cluster: ChaosCluster, facts: float) -> None:
    async def has() -> bool:
        return await cluster.facts() >= facts

    await until(has)


async def _owner(cluster: ChaosCluster) -> str:
    """The server that owns the only execution."""
    ((identity,),) = await cluster.rows(
        "SELECT server FROM noetl.partitions JOIN noetl.heads ON number = partition LIMIT 1"
    )
    return str(identity).partition("#")[0]


def _growth(cluster: ChaosCluster, before: dict[str, float]) -> float:
    return max(cluster.rss_mb(name, peak=True) - mb for name, mb in before.items())


VALUES = Path(__file__).parents[2] / "e2e" / "playbooks" / "large_values.yaml"
VALUED = 6  # executions
VALUE_BYTES = 100_000  # of each of eight rows


def test_large_values_of_ctx_step_and_iter_survive_kills() -> None:
    asyncio.run(_keep_values())


async def _keep_values() -> None:
    """Kill a worker and the owner of most executions while large values are written, read and folded (D91)."""
    async with opened(Plan(slots=4, workers=2, named=True)) as cluster, serving() as effects:
        load, begun = Load(cluster, effects), CLOCK.monotonic()
        text = VALUES.read_text("utf-8").replace("{bytes: 10}", f"{{bytes: {VALUE_BYTES}}}")
        await load.register(text)
        for _ in range(VALUED):
            await load.start("tests/large_values")
        for facts_each, name in ((8, "worker-1"), (16, "server"), (24, "worker-2")):
            await _until_has(cluster, VALUED * facts_each)
            victim = await _owner(cluster) if name == "server" else name
            await cluster.kill(victim)
            await cluster.start(victim)
        await cluster.until_all_ended()
        seconds, verdict = CLOCK.monotonic() - begun, await audited(load)
        longest = max(len(str(event.fact)) for log in verdict.logs.values() for event in log)
        report("large values", executions=VALUED, kills=3, longest_fact=longest, seconds=seconds)
        assert len(verdict.ok) == VALUED
        assert longest < INLINE_MAX
        for log in verdict.logs.values():
            (finished,) = [event.fact for event in log if isinstance(event.fact, facts.Finished)]
            assert finished.output is not None
            assert finished.output.data == {
                "ids": list(range(8)), "report": 8, "reported": 8, "collected": [0, 1, 2, 1, 2, 3, 2, 3, 4],
                "all": 64, "each": [8] * 8, "half": 32,
            }  # fmt: skip


def large(store: str) -> str:
    return head(f"large-{store.replace('_', '-')}") + (
        'workload: {url: ""}\nworkflow:\n'
        "- step: start\n"
        '  tool: {kind: http, method: POST, url: "{{ workload.url }}/large?of={{ execution_id }}'
        f'&mb={LARGE_MB}", spec: {{result: {{store: {{kind: {store}}}}}}}}}\n'
        '  set: {ctx.large_ref: "{{ output.ref }}"}\n  next: {arcs: [{step: read}]}\n'
        '- {step: read, tool: {kind: resolve, ref: "{{ ctx.large_ref }}", set: {ctx.chars: "{{ output.data | length }}"}}}\n'
    )


def test_results_of_ten_megabytes_are_read_complete_or_reported_as_damaged() -> None:
    asyncio.run(_keep_large())


async def _keep_large() -> None:
    """Store half of the results in NATS and half in PostgreSQL, and kill a worker meanwhile."""
    async with opened(Plan(servers=1, slots=2, results_in_postgresql=True)) as cluster, serving() as effects:
        load, begun = Load(cluster, effects), CLOCK.monotonic()
        await load.register(large("nats_object"), large("postgres"))
        for number in range(LARGE):
            await load.start(f"chaos/large-{'nats-object' if number % 2 else 'postgres'}")
        await _until_has(cluster, LARGE * 6)
        await cluster.kill("worker-1")
        await cluster.start("worker-1")
        await cluster.until_all_ended()
        seconds, verdict = CLOCK.monotonic() - begun, await audited(load)
        refs = _refs(verdict)
        stores = ResultStores(
            [
                NamedStore("nats_object", NatsResults(cluster.nats), shared=True),
                NamedStore("postgres", PostgresResults(cluster.database), shared=True),
            ]
        )
        keys = {type: sorted(key for kind, key in map(_place, refs) if kind == type) for type in ("nats", "relational")}
        rotten = [
            *await _damage_in_nats(cluster, keys["nats"][:ROTTEN]),
            *await _damage_in_postgresql(cluster, keys["relational"][:ROTTEN]),
        ]
        damaged = [ref for ref in refs if not await _is_whole(stores, ref)]
        await stores.close()
        longest = max(len(str(event.fact)) for log in verdict.logs.values() for event in log)
        report(
            "large results",
            results=LARGE,
            mb_each=LARGE_MB,
            rotten=len(rotten),
            found=len(damaged),
            worker_mb=max(cluster.rss_mb(name, peak=True) for name in cluster.workers),
            server_mb=cluster.rss_mb("server-1", peak=True),
            longest_fact=longest,
            seconds=seconds,
        )
        assert len(verdict.ok) == LARGE
        assert len(refs) == LARGE * 3 // 2
        assert longest < INLINE_MAX
        assert {_place(ref) for ref in damaged} == set(rotten)
        assert len(rotten) == 2 * ROTTEN


def _refs(verdict: Verdict) -> list[dict[str, JSON]]:
    """The refs of the large results in the logs."""
    refs = {}
    for log in verdict.logs.values():
        for event in log:
            if isinstance(event.fact, facts.TaskDone) and event.fact.output and event.fact.output.ref:
                ref = event.fact.output.ref
                refs[_place(ref)] = ref
    return list(refs.values())


def _place(ref: dict[str, JSON]) -> tuple[str, str]:
    """The store and the key: the same data has the same key in both stores."""
    return ref["type"], ref["locator"]["key"]


async def _is_whole(stores: ResultStores, ref: dict[str, JSON]) -> bool:
    try:
        return len(await stores.get(ref)) > LARGE_MB << 20
    except Damaged:
        return False


async def _damage_in_nats(cluster: ChaosCluster, names: list[str]) -> list[tuple[str, str]]:
    """Change one byte of each result and adapt its metadata: only our digest detects it.

    The store also has results of calls that were made again: no log names them.
    """
    client = Client()
    await client.connect(cluster.nats)
    objects = await client.jetstream().object_store(BUCKET)
    for name in names:
        body = bytearray((await objects.get(name)).data or b"")
        body[len(body) // 2] ^= 1
        await objects.put(name, bytes(body))
    await client.close()
    return [("nats", name) for name in names]


async def _damage_in_postgresql(cluster: ChaosCluster, keys: list[str]) -> list[tuple[str, str]]:
    found = await cluster.rows("SELECT id, key FROM noetl_results WHERE key = ANY($1)", keys)
    for id, _ in found:
        await cluster.rows(
            "UPDATE noetl_result_parts SET body = set_byte(body, 1000, get_byte(body, 1000) # 1)"
            " WHERE result = $1 AND place = 3",
            id,
        )
    return [("relational", key) for _, key in found]
