"""Streamed answers on a cluster: any server sends the parts, in bounded memory, also after the owner was killed (D110)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.api.test_respond_stream import FAILS, GATE, ROWS, pipeline
from tests.distributed.cluster import SHORT_LEASE_S, Cluster, ClusterSize, open_cluster

REQUESTS = 8  # one server owns all of these executions with a probability of one in 128
PART_BYTES, PARTS = 100_000_000, 2
LARGE = pipeline(
    "{name: small, kind: respond, more: true, body: \"first\\n\"}",
    f"{{name: make, kind: shell, sh: 'head -c {PART_BYTES} /dev/zero | tr \"\\0\" x'}}",
    *(f"{{name: part{n}, kind: respond, more: true, ref: '{{{{ make.shell.stdout_ref }}}}'}}" for n in range(PARTS)),
)  # fmt: skip
BREAKS = pipeline("{name: one, kind: respond, more: true, body: \"one\\n\"}", GATE, FAILS)  # fmt: skip


@asynccontextmanager
async def requested(cluster: Cluster, text: str, server: int) -> AsyncIterator[aiohttp.ClientResponse]:
    async with cluster.client(server) as client:
        await client.register(text)
    headers = {"Authorization": f"Bearer {cluster.token}"}
    async with (
        aiohttp.ClientSession(headers=headers, read_bufsize=2**16) as session,
        session.post(f"{cluster.url(server)}/run/t") as response,
    ):
        yield response


def id_of(response: aiohttp.ClientResponse) -> str:
    return response.headers["Noetl-Execution-Id"]


async def signal(cluster: Cluster, id: str, server: int) -> None:
    async with cluster.client(server) as client:
        async for each in client.stream(id):
            if getattr(each, "name", "") == "frame.parked":  # after the first part
                break
        await client.signal(id, "go")


async def _streams(cluster: Cluster) -> None:
    for _ in range(REQUESTS):
        async with requested(cluster, ROWS, 1) as response:
            assert (response.status, await response.content.readline()) == (201, b'{"row":0}\n')
            await signal(cluster, id_of(response), 0)
            assert await response.read() == b"".join(b'{"row":%d}\n' % row for row in range(1, 5))
    async with requested(cluster, BREAKS, 1) as response:
        assert await response.content.readline() == b"one\n"
        await signal(cluster, id_of(response), 0)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


def test_every_server_sends_the_parts(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=1)) as cluster:
        asyncio.run(_streams(cluster))


async def _owns(cluster: Cluster, server: int, id: str) -> bool:
    return await cluster.owner(id) == server


async def _survives(cluster: Cluster) -> None:
    while True:
        async with requested(cluster, ROWS, 1) as response:
            assert await response.content.readline() == b'{"row":0}\n'
            if not await _owns(cluster, 0, id_of(response)):
                continue
            cluster.servers[0].kill()
            await cluster.until(lambda: _owns(cluster, 1, id_of(response)))
            await signal(cluster, id_of(response), 1)
            assert await response.read() == b"".join(b'{"row":%d}\n' % row for row in range(1, 5))
            await cluster.audited(id_of(response))
            return


def test_the_answer_survives_the_owner_of_its_execution(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=1, lease_s=SHORT_LEASE_S)) as cluster:
        asyncio.run(_survives(cluster))


async def _large(cluster: Cluster) -> None:
    async with requested(cluster, LARGE, 0) as response:
        assert await response.content.readline() == b"first\n"
        before_mb, size = _peak_mb(cluster), 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            assert not chunk.strip(b"x")
    assert size == PARTS * PART_BYTES
    assert _peak_mb(cluster) - before_mb < 64


def _peak_mb(cluster: Cluster) -> int:
    lines = Path(f"/proc/{cluster.servers[0].pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def test_a_large_answer_needs_little_memory(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(servers=1, workers=1)) as cluster:
        asyncio.run(_large(cluster))
