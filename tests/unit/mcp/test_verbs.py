"""The tools that agents use, with a client of the official SDK in the same process, on a database file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from noetl.mcp.bounds import ANSWER_CHARS_MAX
from noetl.mcp.context import VerbContext, installed
from noetl.mcp.server import McpServer
from noetl.mcp.verbs import VERBS
from noetl.playbook.exposed import NAME_CHARS_MAX, distinct_name
from noetl.playbook.exposed import VERBS as TAKEN_NAMES
from noetl.session.local import LocalSession
from noetl.session.sources import PlaybookFile, load
from tests.playbooks import HEAD
from tests.unit.cli.invoke import run_check

GREETING = (
    HEAD
    + 'workload: {name: Ada}\nworkflow:\n- step: start\n  tool: {kind: noop, input: {hello: "{{ workload.name }}"}}\n'
)
FAILING = (
    HEAD
    + 'workflow:\n- step: start\n  tool: {kind: noop}\n  next: {arcs: [{step: divide}]}\n- step: divide\n  tool: {kind: noop, input: {n: "{{ 1 / 0 }}"}}\n'
)
MISTAKES = (
    HEAD
    + "workflow:\n- step: start\n  tool: {kind: nop}\n  next: {arcs: [{step: finsh}]}\n- step: finish\n  tol: {kind: noop}\n"
)
WAITING = HEAD + "workflow:\n- step: start\n  tool: {kind: wait, signal: approval}\n"
EXPOSED = (
    HEAD.replace("path: t", "path: shop/orders, expose_as_tool: true, description: Orders of a day")
    + 'input: {day: {type: date, desc: the day to load}, limit: {type: integer, default: 10, min: 1}}\n'
    + 'workflow:\n- step: start\n  tool: {kind: noop, input: {day: "{{ workload.day }}", limit: "{{ workload.limit }}"}}\n'
)  # fmt: skip


class Agent:
    """A client, and the answers as data."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, /, **arguments: Any) -> Any:
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result.structured_content
        return result.structured_content

    async def error(self, name: str, /, **arguments: Any) -> Any:
        result = await self.client.call_tool(name, arguments)
        assert result.is_error
        return result.structured_content["error"]

    async def names(self) -> list[str]:
        return [each.name for each in (await self.client.list_tools()).tools]


@asynccontextmanager
async def agent_on(path: Path, **options: Any) -> AsyncIterator[Agent]:
    async with LocalSession(path) as session:
        context = VerbContext(session, installed(), **options)
        async with Client(McpServer(lambda _: nullcontext(context)).protocol, raise_exceptions=True) as client:
            yield Agent(client)


def with_agent(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test with an agent on a new database file."""
    fixtures = [each for each in signature(test).parameters if each != "agent"]

    def run(tmp_path: Path, **given: Any) -> None:
        async def work() -> None:
            async with agent_on(tmp_path / "noetl.db") as agent:
                await test(agent, **({"tmp_path": tmp_path} if "tmp_path" in fixtures else {}), **given)

        asyncio.run(work())

    names = dict.fromkeys(["tmp_path", *fixtures])
    run.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])  # type: ignore[attr-defined]  # for pytest
    run.__name__ = test.__name__
    return run


def run_async(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **given: Any) -> None:
        asyncio.run(test(*arguments, **given))

    return run


@with_agent
async def test_every_tool_has_a_schema_and_says_whether_it_changes_something(agent: Agent) -> None:
    tools = (await agent.client.list_tools()).tools
    assert [each.name for each in tools] == list(VERBS) == list(TAKEN_NAMES)
    assert {each.name for each in tools if each.annotations and not each.annotations.read_only_hint} == {
        "run", "fork", "signal", "cancel",
    }  # fmt: skip
    for each in tools:
        assert each.description
        assert each.input_schema["type"] == "object"
        assert each.input_schema["additionalProperties"] is False
        assert all("description" in field for field in each.input_schema["properties"].values()), each.name


@with_agent
async def test_check_answers_with_the_problems_of_check_format_json(
    agent: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await agent.call("check", text=MISTAKES)
    (tmp_path / "playbook").write_text(MISTAKES)
    assert run_check([str(tmp_path / "playbook")], "json", "canonical", strict=False) == 2
    printed = json.loads(capsys.readouterr().out.replace(str(tmp_path / "playbook"), "playbook"))
    assert not answer["ok"]
    assert answer["problems"] == printed
    assert {each["code"] for each in printed} >= {"unknown-kind", "unknown-step", "unknown-key"}


@with_agent
async def test_applying_the_fixes_leaves_no_problem(agent: Agent) -> None:
    fixed = (await agent.call("check", text=MISTAKES, apply_fixes=True))["text"]
    assert (await agent.call("check", text=fixed)) == {"ok": True, "problems": [], "edits": []}


@with_agent
async def test_a_text_with_errors_is_not_stored(agent: Agent) -> None:
    error = await agent.error("run", text=MISTAKES)
    assert error["code"] == "problems"
    assert len(error["problems"]) >= 3
    assert await agent.call("list") == {"executions": []}
    assert await agent.call("list", of="playbooks") == {"playbooks": []}


@with_agent
async def test_run_answers_with_the_output(agent: Agent) -> None:
    answer = await agent.call("run", text=GREETING, workload={"name": "Grace"})
    assert (answer["status"], answer["output"]) == ("ok", {"hello": "Grace"})
    [listed] = (await agent.call("list"))["executions"]
    assert (listed["execution"], listed["playbook"], listed["status"]) == (answer["execution"], "t", "ok")
    assert (await agent.call("status", execution="last"))["output"]["data"] == {"hello": "Grace"}
    assert (await agent.call("state", execution="last"))["workload"] == {"name": "Grace"}
    again = await agent.call("run", path="t")
    assert again["output"] == {"hello": "Ada"}
    assert (await agent.call("diff", a=answer["execution"], b=again["execution"]))["differs"]


@with_agent
async def test_a_failure_is_explained_and_the_corrected_playbook_keeps_the_finished_work(agent: Agent) -> None:
    result = await agent.client.call_tool("run", {"text": FAILING})
    answer = result.structured_content
    assert result.is_error
    assert (answer["status"], answer["failed_steps"]) == ("error", ["divide"])
    execution = answer["execution"]
    assert (await agent.call("status", execution=execution))["status"] == "error"  # the call itself succeeds
    assert "divide" in (await agent.call("why", execution=execution, step="divide"))["text"]
    corrected = FAILING.replace("1 / 0", "1 / 2")
    assert (await agent.call("what_if", execution=execution, text=corrected))["status"] == ["error", "ok"]
    planned = await agent.call("fork", execution=execution, text=corrected, dry_run=True)
    assert planned["plan"]["kept"] == ["start#1"]
    assert "execution" not in planned
    forked = await agent.call("fork", execution=execution, text=corrected)
    assert (forked["status"], forked["output"]) == ("ok", {"n": 0.5})


@with_agent
async def test_an_execution_that_takes_longer_answers_with_its_id(agent: Agent) -> None:
    answer = await agent.call("run", text=WAITING, wait_s=0.05)
    assert answer["status"] == "running"
    signalled = await agent.call("signal", execution=answer["execution"], name="approval", data={"ok": True})
    assert signalled["received"]
    cancelled = await agent.call("run", text=WAITING, wait_s=0)
    assert (await agent.call("cancel", execution=cancelled["execution"]))["status"] == "cancelled"


@with_agent
async def test_tests_run_in_memory_and_make_no_calls(agent: Agent) -> None:
    text = HEAD + 'workflow:\n- step: start\n  tool: {kind: http, url: "http://127.0.0.1:9/"}\n'
    tests = "playbook: any\ntests:\n- name: it is stubbed\n  stubs: [{call: start, output: {n: 1}}]\n  expect: {output: {n: 1}}\n"
    answer = await agent.call("test", text=text, tests=tests)
    assert (answer["ok"], answer["passed"], answer["failed"]) == (True, 1, 0)
    wrong = await agent.call(
        "test", text=text, tests=tests.replace("expect: {output: {n: 1}}", "expect: {output: {n: 2}}")
    )
    assert (wrong["ok"], wrong["failed"]) == (False, 1)
    live = await agent.call("test", text=text, tests=tests.replace("output: {n: 1}}]", "live: true}]"))
    assert not live["ok"]
    assert "no calls are made here" in live["problems"][0]["message"]
    cassette = await agent.call("test", text=text, tests="playbook: a\ntests:\n- {name: a, cassette: /etc/passwd}\n")
    assert "there are no files here" in cassette["problems"][0]["message"]


@with_agent
async def test_plan_shows_the_effects(agent: Agent) -> None:
    text = (
        HEAD
        + 'workflow:\n- step: start\n  tool:\n  - {name: prepare, kind: noop}\n  - {name: fetch, kind: http, url: "https://example.com/x"}\n'
    )
    answer = await agent.call("plan", text=text)
    [effect] = answer["effects"]
    assert (effect["step"], effect["task"], effect["kind"]) == ("start", "fetch", "http")
    assert "https://example.com/x" in effect["does"]
    assert "flowchart" in answer["drawing"]


@with_agent
async def test_the_language_is_described_by_topics(agent: Agent) -> None:
    overview = await agent.call("describe_language")
    assert "Execution begins at the step `start`" in overview["text"]
    for topic in overview["topics"]:
        assert (await agent.call("describe_language", topic=topic))["text"]
    assert "Correct the name" in (await agent.call("describe_language", topic="unknown-step"))["text"]
    error = await agent.error("describe_language", topic="lop")
    assert (error["code"], "loop" in error["message"]) == ("not-found", True)
    assert "http" in [each["kind"] for each in (await agent.call("list_tools"))["tools"]]
    assert (await agent.call("describe_tool", kind="http"))["example"]


@run_async
async def test_read_only_has_no_tool_that_changes_something(tmp_path: Path) -> None:
    async with agent_on(tmp_path / "noetl.db", read_only=True) as agent:
        assert set(VERBS) - set(await agent.names()) == {"run", "fork", "signal", "cancel"}
        error = await agent.error("run", text=GREETING)
        assert (error["code"], "read-only" in error["message"]) == ("not-allowed", True)
        assert await agent.call("list") == {"executions": []}


async def register(session: LocalSession, *texts: str) -> None:
    made = {}
    for number, text in enumerate(texts):
        found = load(PlaybookFile(str(number), text.encode()), "canonical", installed().kinds).registered_text(None)
        assert found is not None
        made[str(number)] = found
    await session.playbooks.register(made)


@run_async
async def test_playbooks_whose_paths_give_one_name_have_longer_names(tmp_path: Path) -> None:
    async with LocalSession(tmp_path / "noetl.db") as session:
        await register(session, EXPOSED, EXPOSED.replace("shop/orders", "shop_orders"))
    async with agent_on(tmp_path / "noetl.db") as agent:
        tools = (await agent.client.list_tools()).tools[len(VERBS) :]
        paths = {
            each.name: (each.description or "").partition("Runs the playbook ")[2].partition(". ")[0] for each in tools
        }
        assert paths == {distinct_name("shop/orders"): "shop/orders", distinct_name("shop_orders"): "shop_orders"}
        for name, path in paths.items():
            answer = await agent.call(name, day="2026-11-16")
            assert (await agent.call("status", execution=answer["execution"]))["playbook"] == path
        with pytest.raises(MCPError, match="several playbooks") as error:
            await agent.client.call_tool("shop_orders", {"day": "2026-11-16"})
        assert all(f"{name} ({path})" in str(error.value) for name, path in paths.items())


def test_a_longer_name_is_one_that_clients_accept() -> None:
    assert distinct_name("shop/orders") == "shop_orders_644f7b"
    assert len(distinct_name("a" * NAME_CHARS_MAX)) == NAME_CHARS_MAX


@run_async
async def test_a_registered_playbook_with_typed_inputs_is_a_tool(tmp_path: Path) -> None:
    async with LocalSession(tmp_path / "noetl.db") as session:
        await register(session, EXPOSED, GREETING)
    async with agent_on(tmp_path / "noetl.db") as agent:
        assert (await agent.names())[len(VERBS) :] == ["shop_orders"]
        tool = (await agent.client.list_tools()).tools[-1]
        assert tool.input_schema["properties"]["day"] == {
            "type": "string",
            "format": "date",
            "description": "the day to load",
        }
        assert tool.input_schema["required"] == ["day"]
        assert tool.description is not None
        assert "Runs the playbook shop/orders" in tool.description
        answer = await agent.call("shop_orders", day="2026-11-16")
        assert answer["output"] == {"day": "2026-11-16", "limit": 10}
        error = await agent.error("shop_orders", day="soon", limit=0)
        assert [each["name"] for each in error["fields"]] == ["day", "limit"]


@with_agent
async def test_a_large_output_is_cut_and_can_be_read_in_parts(agent: Agent) -> None:
    text = (
        HEAD
        + 'workflow:\n- step: start\n  tool: {kind: noop, input: {rows: "{{ range(10000) | list }}", word: "{{ range(10000) | join }}"}}\n'
    )
    answer = await agent.call("run", text=text)
    assert len(json.dumps(answer)) < 1.2 * ANSWER_CHARS_MAX
    assert {each["pointer"]: each["total"] for each in answer["cut"]["parts"]} == {
        "/output/rows": 10_000,
        "/output/word": 38_890,
    }
    assert "output" in answer["cut"]["rest"]
    part = await agent.call("output", execution="last", pointer="/rows", offset=9_990, limit=100)
    assert part == {"value": list(range(9_990, 10_000)), "offset": 9_990, "total": 10_000, "next_offset": None}
    first = await agent.call("output", execution="last", pointer="/word", limit=10)
    assert (first["value"], first["next_offset"]) == ("0123456789", 10)
    assert (await agent.error("output", execution="last", pointer="/nothing"))["code"] == "not-found"


@with_agent
async def test_events_and_logs_come_in_pages(agent: Agent) -> None:
    text = (
        HEAD
        + "workflow:\n- step: start\n  tool:\n    kind: python\n    code: |\n      def main():\n          for n in range(5):\n              print('line', n)\n"
    )
    await agent.call("run", text=text)
    seen, after = [], 0
    while after is not None:
        page = await agent.call("events", execution="last", after=after, limit=3)
        seen += [each["seq"] for each in page["events"]]
        after = page["next_after"]
    assert sorted(set(seen)) == list(range(1, max(seen) + 1))
    assert seen == sorted(seen)
    first = await agent.call("logs", execution="last", limit=2)
    assert ([each.partition("| ")[2] for each in first["lines"]], first["next_offset"]) == (["line 0", "line 1"], 2)
    rest = await agent.call("logs", execution="last", offset=2)
    assert (len(rest["lines"]), rest["next_offset"]) == (3, None)


@with_agent
async def test_wrong_requests_get_clear_errors(agent: Agent) -> None:
    assert (await agent.error("run"))["message"].startswith("give either `text`")
    assert (await agent.error("run", text="a", path="b"))["code"] == "usage"
    assert (await agent.error("run", texts="a"))["code"] == "bad-arguments"
    assert (await agent.error("run", text=GREETING, wait_s=10_000))["code"] == "bad-arguments"
    assert (await agent.error("run", path="no/such"))["code"] == "usage"
    assert (await agent.error("status", execution="zz"))["code"] == "usage"
    with pytest.raises(MCPError, match='there is no tool "delete"'):
        await agent.client.call_tool("delete", {})


@run_async
async def test_a_path_names_no_file_unless_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "hello.yaml").write_text(GREETING)
    async with agent_on(tmp_path / "noetl.db") as agent:
        error = await agent.error("run", path=str(tmp_path / "hello.yaml"))
        assert "no playbook is registered" in error["message"]
        assert (await agent.error("explain", path="/etc/passwd"))["code"] == "usage"
    async with agent_on(tmp_path / "noetl.db", files=True) as agent:
        assert (await agent.call("run", path=str(tmp_path / "hello.yaml")))["status"] == "ok"
        assert (await agent.error("explain", path="-"))["code"] == "usage"  # standard input is the connection


@with_agent
async def test_resources_and_prompts(agent: Agent) -> None:
    client = agent.client
    resources = {str(each.uri): each for each in (await client.list_resources()).resources}
    assert "noetl://examples/hello" in resources
    for uri in (
        "noetl://language",
        "noetl://problems",
        "noetl://examples/hello",
        "noetl://language/loop",
        "noetl://tools/http",
    ):
        [content] = (await client.read_resource(uri)).contents
        assert len(getattr(content, "text", "")) > 100, uri
    with pytest.raises(MCPError, match="there is no resource"):
        await client.read_resource("noetl://examples/../secrets")
    assert [each.name for each in (await client.list_prompts()).prompts] == ["write_playbook", "why_failed"]
    prompt = await client.get_prompt("write_playbook", {"goal": "copies {a} table"})
    assert "copies {a} table" in str(prompt.messages[0].content)
    with pytest.raises(MCPError, match='needs the argument "goal"'):
        await client.get_prompt("write_playbook", {})
