"""The verbs as a server of the Model Context Protocol, over standard input and output or over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, TypeAlias

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from noetl import __version__
from noetl.errors import (
    Damaged,
    InputError,
    NoetlError,
    NotFound,
    PlaybookError,
    Rejected,
    Unavailable,
)
from noetl.mcp import guidance
from noetl.mcp.bounds import bounded
from noetl.mcp.context import Answer, VerbContext, installed
from noetl.mcp.executions import run_registered
from noetl.mcp.exposed import ExposedPlaybook, ExposedPlaybooks
from noetl.mcp.verbs import VERBS, Verb
from noetl.playbook.exposed import tool_name
from noetl.views.problems import problem_document

# A request → what its caller sees.
ContextSource: TypeAlias = Callable[[ServerRequestContext[Any, Any]], AbstractAsyncContextManager[VerbContext]]
Request: TypeAlias = ServerRequestContext[Any, Any]
_CODES: Final[dict[type[NoetlError], str]] = {NotFound: "not-found", Unavailable: "unavailable", Damaged: "damaged"}


class McpServer:
    """The handlers of all requests."""

    def __init__(self, contexts: ContextSource) -> None:
        self._contexts = contexts
        self._exposed = ExposedPlaybooks()
        self.protocol: Server[Any] = Server(
            "noetl",
            version=__version__,
            title="NoETL",
            instructions=guidance.INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    # Tools

    async def _list_tools(self, request: Request, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        async with self._contexts(request) as context:
            scopes = await context.session.scopes()
            tools = [_tool(each) for each in VERBS.values() if _is_allowed(each, context, scopes)]
            if _is_allowed(VERBS["run"], context, scopes):
                exposed = await self._exposed.tools(context)
                tools += [_exposed_tool(name, each) for name, each in exposed.items()]
            return types.ListToolsResult(tools=tools)

    async def _call_tool(self, request: Request, asked: types.CallToolRequestParams) -> types.CallToolResult:
        async with self._contexts(request) as context:
            try:
                verb, answer = await self._answer(context, asked.name, asked.arguments or {})
            except (NoetlError, msgspec.ValidationError) as error:
                return _result(_error_answer(error), VERBS["check"].rest, is_error=True)
            # The status of an execution that the call itself has run.
            return _result(answer, verb.rest, is_error=verb.effect == "changes" and answer.get("status") == "error")

    async def _answer(self, context: VerbContext, name: str, arguments: dict[str, Any]) -> tuple[Verb, Answer]:
        """The answer, and the verb that gave it."""
        verb = VERBS.get(name)
        needed = verb or VERBS["run"]  # an exposed playbook
        if not _is_allowed(needed, context, await context.session.scopes()):
            reason = "this server is read-only" if context.read_only else f'your token lacks the scope "{needed.scope}"'
            raise Rejected("not-allowed", f"{name[:100]} is not available: {reason}")
        if verb is not None:
            return verb, await _run(verb, context, msgspec.convert(arguments, verb.arguments))
        exposed = await self._exposed.tools(context)
        if name not in exposed:
            raise MCPError(types.INVALID_PARAMS, _unknown_tool(name, exposed))
        return needed, await run_registered(context, exposed[name].path, arguments)

    # Resources and prompts

    async def _list_resources(self, _: Request, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        found = [
            types.Resource(name=each.uri, uri=each.uri, title=each.title, mime_type=each.mime_type)
            for each in guidance.resources(installed())
        ]
        return types.ListResourcesResult(resources=found)

    async def _list_templates(
        self, _: Request, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        found = [
            types.ResourceTemplate(name=uri, uri_template=uri, description=doc)
            for uri, doc in guidance.TEMPLATES.items()
        ]
        return types.ListResourceTemplatesResult(resource_templates=found)

    async def _read_resource(self, _: Request, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            found = guidance.read_resource(installed(), str(asked.uri))
        except NotFound as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        text = types.TextResourceContents(uri=found.uri, text=found.text, mime_type=found.mime_type)
        return types.ReadResourceResult(contents=[text])

    async def _list_prompts(self, _: Request, __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        found = [
            types.Prompt(
                name=each.name,
                description=each.doc,
                arguments=[types.PromptArgument(name=each.argument, description=each.argument_doc, required=True)],
            )
            for each in guidance.PROMPTS
        ]
        return types.ListPromptsResult(prompts=found)

    async def _get_prompt(self, _: Request, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
        found = next((each for each in guidance.PROMPTS if each.name == asked.name), None)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f'there is no prompt "{asked.name[:100]}"')
        value = (asked.arguments or {}).get(found.argument)
        if not value:
            raise MCPError(types.INVALID_PARAMS, f'the prompt needs the argument "{found.argument}"')
        content = types.TextContent(text=found.text.replace("{}", value))
        return types.GetPromptResult(
            description=found.doc, messages=[types.PromptMessage(role="user", content=content)]
        )


async def _run(verb: Verb, context: VerbContext, asked: Any) -> Answer:
    """A log may be long: a verb that reads and folds it must not stop other requests."""
    if context.threads is None or verb.effect != "none" or (verb.trial and context.trials is not None):
        return await verb.run(context, asked)
    inside = context._replace(threads=None)

    async def work() -> Answer:
        return await verb.run(inside, asked)

    async with context.threads:
        return await asyncio.to_thread(lambda: asyncio.run(work()))


def _is_allowed(verb: Verb, context: VerbContext, scopes: frozenset[str]) -> bool:
    return verb.scope in scopes and (verb.effect == "none" or not context.read_only)


def _tool(verb: Verb) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=verb.effect == "none",
        destructive_hint=verb.effect == "changes",
        open_world_hint=verb.effect == "changes",
    )
    return types.Tool(name=verb.name, description=verb.doc, input_schema=verb.schema, annotations=hints)


def _exposed_tool(name: str, each: ExposedPlaybook) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True)
    doc = f"{each.doc}. Runs the playbook {each.path}. Answer: {{execution, status, output, error}}."
    return types.Tool(name=name, description=doc, input_schema=each.schema, annotations=hints)


def _unknown_tool(name: str, exposed: dict[str, ExposedPlaybook]) -> str:
    longer = [f"{each} ({found.path})" for each, found in exposed.items() if tool_name(found.path) == name]
    if longer:
        return f'several playbooks would be the tool "{name}": call {" or ".join(longer)}'
    return f'there is no tool "{name[:100]}"'


def _result(answer: Answer, rest: str, *, is_error: bool) -> types.CallToolResult:
    """Structured; and for clients that show text, a long text of the answer as it is."""
    shown = bounded(msgspec.to_builtins(answer), rest)
    others = {key: value for key, value in shown.items() if key != "text"}
    content: list[types.ContentBlock] = []
    if isinstance(shown.get("text"), str):
        content.append(types.TextContent(text=shown["text"]))
    if others:
        content.append(types.TextContent(text=msgspec.json.encode(others).decode()))
    return types.CallToolResult(content=content, structured_content=shown, is_error=is_error)


def _error_answer(error: NoetlError | msgspec.ValidationError) -> Answer:
    match error:
        case msgspec.ValidationError():
            return {"error": {"code": "bad-arguments", "message": f"{error}; the schema of the tool has its arguments"}}
        case PlaybookError():
            message = "the playbook has errors, so nothing was stored and nothing runs: correct them, and check again"
            found = [problem_document(each) for each in error.problems]
            return {"error": {"code": "problems", "message": message, "problems": found}}
        case InputError():
            fields = [each._asdict() for each in error.problems]
            return {"error": {"code": error.code, "message": str(error), "fields": fields}}
        case Rejected():
            return {"error": {"code": error.code, "message": str(error)}}
    return {"error": {"code": _CODES.get(type(error), "usage"), "message": str(error)}}


async def serve_stdio(context: VerbContext) -> None:
    """Until the client closes standard input."""
    protocol = McpServer(lambda _: nullcontext(context)).protocol
    async with stdio_server() as (incoming, outgoing):
        await protocol.run(incoming, outgoing, protocol.create_initialization_options())
