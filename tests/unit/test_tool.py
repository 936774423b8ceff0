"""The address policy of a worker, not the playbook, decides where tools connect to (D88)."""

from __future__ import annotations

import asyncio
import re

import pytest
from aiohttp import web

from noetl.errors import Rejected
from noetl.output import Output
from noetl.tool import AddressPolicy, Tool, Tools, ToolUser
from noetl.tools.http.tool import HttpInput
from tests.unit.tools.calls import call, server


@pytest.mark.parametrize(
    ("text", "allow"),
    [
        ("", ()),
        ("10.0.0.0/8 127.0.0.0/8", ("10.0.0.0/8", "127.0.0.0/8")),
        (" fd00::/8,\n192.168.1.7 ", ("fd00::/8", "192.168.1.7")),
    ],
)
def test_a_server_allows_only_the_named_networks_d88(text: str, allow: tuple[str, ...]) -> None:
    assert AddressPolicy.of_server(text) == AddressPolicy(allow_private=False, allow=allow)


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.1/8", "intranet", "10.0.0.0/8 -", "0x7f.1"])
def test_an_invalid_network_is_rejected(text: str) -> None:
    wrong = re.escape(f'"{text.split()[-1]}" is not a network; write 10.0.0.0/8')
    with pytest.raises(Rejected, match=wrong):
        AddressPolicy.of_server(text)


async def request(tools: Tools) -> Output:
    """A request to a server on loopback."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.json_response("reached")

    tool = tools.make("http")
    assert tool is not None
    try:
        async with server(handler) as at:
            return await tool.run(HttpInput(url=at), call())
    finally:
        await tool.close()


@pytest.mark.parametrize(
    "policy",
    [None, AddressPolicy(), AddressPolicy.of_server("127.0.0.0/8"), AddressPolicy.of_server("127.0.0.1")],
)
def test_tools_reach_addresses_that_their_policy_allows_d88(policy: AddressPolicy | None) -> None:
    assert asyncio.run(request(Tools.installed(policy))).data == "reached"


@pytest.mark.parametrize("networks", ["", "10.0.0.0/8", "127.0.0.2"])
def test_tools_of_a_server_do_not_reach_other_addresses_d88(networks: str) -> None:
    output = asyncio.run(request(Tools.installed(AddressPolicy.of_server(networks))))
    assert output.error is not None
    assert output.error.message.startswith("the address is not allowed: 127.0.0.1 is a loopback address")


def test_every_tool_can_be_made_under_a_policy() -> None:
    tools = Tools.installed(AddressPolicy.of_server("10.0.0.0/8"))
    made = {kind: tools.make(kind) for kind in Tools.built_in().kinds()}
    assert {kind for kind, tool in made.items() if tool is not None and tool.connects} == {
        "http",
        "mcp",
        "nats",
        "object",
        "postgres",
        "resolve",
        "transfer",
    }
    assert {kind for kind, tool in made.items() if tool is None} == set()


def test_every_tool_that_is_repeated_names_its_failures() -> None:
    kinds = Tools.installed(AddressPolicy.of_server("")).kinds()
    assert [name for name, kind in kinds.items() if kind.repeats and kind.failures is None] == []


class Simulator(Tool):
    """A tool for 0.1.0, which has no `nice`."""

    kind = "simulator"
    runs_programs = True

    def __init__(self, user: ToolUser | None = None) -> None:
        self.user = user


class InstalledSimulator:
    def load(self) -> type[Tool]:
        return Simulator


def test_a_tool_without_nice_is_created_with_its_user() -> None:
    user = ToolUser("tools", 1_234, 1_234, (), "/home/tools")
    tool = Tools({"simulator": InstalledSimulator()}, user=user, nice=10).make("simulator")
    assert isinstance(tool, Simulator)
    assert tool.user == user
