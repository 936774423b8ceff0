"""The tools for agents on a cluster: each request may reach another server, with the same tokens and roles."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from noetl.mcp.verbs import VERBS
from tests.api.test_agents import ACCEPT, INITIALIZE, error_of, names
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.playbooks import HEAD

GREETING = (
    HEAD.replace("path: t", "path: team/greeting, expose_as_tool: true")
    + "input: {name: {type: string}}\nworkflow:\n- step: start\n"
    + '  tool: {kind: noop, input: {greeting: "hello {{ workload.name }}"}}\n'
)
WAITING = HEAD + "workflow:\n- step: start\n  tool: {kind: wait, signal: approval}\n"
TESTS = "playbook: a\ntests: [{name: a, workload: {name: Ada}, expect: {status: ok}}]\n"


class BalancedTransport(httpx2.AsyncBaseTransport):
    """A load balancer: each request goes to the next server."""

    def __init__(self, cluster: Cluster) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._ports = cycle(cluster.ports)
        self.answered: Counter[int] = Counter()  # by port

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        port = next(self._ports)
        request.url = request.url.copy_with(port=port)
        self.answered[port] += 1
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def balanced(cluster: Cluster, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    requests = BalancedTransport(cluster)
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120, transport=requests) as http,
        Client(streamable_http_client(f"{cluster.url()}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client
    assert set(requests.answered) == set(cluster.ports)


async def answer_of(client: Client, verb: str, **arguments: Any) -> Any:
    result = await client.call_tool(verb, arguments)
    assert not result.is_error, result.structured_content
    return result.structured_content


async def signalled(client: Client, execution: str) -> str:
    """`received`, or the code of the error."""
    result = await client.call_tool("signal", {"execution": execution, "name": "approval"})
    answer = result.structured_content
    if result.is_error:
        return str(answer["error"]["code"])
    return "received" if answer["received"] else "not received"


async def works_on_every_server(cluster: Cluster, mode: str) -> None:
    async with balanced(cluster, cluster.token, mode) as client:
        assert set(VERBS) <= await names(client)
        for name in ("Ada", "Bo", "Cy", "Di"):  # their partitions have different owners
            ran = await answer_of(client, "run", text=GREETING, workload={"name": name}, wait_s=120)
            assert (ran["status"], ran["output"]) == ("ok", {"greeting": f"hello {name}"})
            assert (await answer_of(client, "status", execution=ran["execution"]))["status"] == "ok"
        assert (await answer_of(client, "test", text=GREETING, tests=TESTS))["passed"] == 1
        what_if = await answer_of(client, "what_if", execution=ran["execution"], text=GREETING)
        assert what_if["differs"] is False
        waiting = (await answer_of(client, "run", text=WAITING, wait_s=0))["execution"]
        async with asyncio.timeout(120):
            while (sent := await signalled(client, waiting)) == "nobody-waits":
                pass  # its task has not begun to wait
            assert sent == "received"
            while (await answer_of(client, "status", execution=waiting))["status"] != "ok":
                pass
        tool = await answer_of(client, "team_greeting", name="Ed")
        assert tool["output"] == {"greeting": "hello Ed"}


async def has_the_rights_of_its_token(cluster: Cluster) -> None:
    made = cluster.noetl("token", "create", "viewer", "--scope", "read", "--db", cluster.dsn, "--format", "json")
    async with balanced(cluster, json.loads(made.stdout)["token"]) as client:
        assert set(VERBS) - await names(client) == {"run", "fork", "signal", "cancel"}
        for _ in cluster.servers:
            assert (await error_of(client, "run", {"text": GREETING}))["code"] == "not-allowed"
    role = ("--role", "author", "--path", "other/*")
    made = cluster.noetl("token", "create", "author", *role, "--db", cluster.dsn, "--format", "json")
    assert made.returncode == 0, made.stderr
    async with balanced(cluster, json.loads(made.stdout)["token"]) as client:
        for _ in cluster.servers:
            error = await error_of(client, "run", {"text": GREETING, "workload": {"name": "Ada"}})
            assert error["code"] == "outside-limits"
            assert await answer_of(client, "list") == {"executions": []}


async def needs_no_session(cluster: Cluster) -> None:
    """A server gives no session, and does not ask for one: that of another server or of an old process is no hindrance."""
    async with aiohttp.ClientSession() as session:
        for server in range(len(cluster.servers)):
            for token, status in ((cluster.token, 200), ("noetl_wrong_token", 401)):
                headers = {**ACCEPT, "Authorization": f"Bearer {token}", "Mcp-Session-Id": "of-another-server"}
                async with session.post(f"{cluster.url(server)}/mcp", json=INITIALIZE, headers=headers) as response:
                    assert (response.status, response.headers.get("Mcp-Session-Id")) == (status, None)


def test_an_agent_works_on_any_server_of_a_cluster(tmp_path: Path) -> None:
    async def work(cluster: Cluster) -> None:
        await needs_no_session(cluster)
        for mode in ("auto", "legacy"):
            await works_on_every_server(cluster, mode)
        await has_the_rights_of_its_token(cluster)

    with open_cluster(tmp_path, ClusterSize(servers=2, workers=1)) as cluster:
        asyncio.run(work(cluster))
