"""`noetl tools`: the installed kinds of tools, or one of them with all its fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import typer

from noetl.cli.completion import complete_kind
from noetl.cli.execute import OK, Reporter
from noetl.cli.options import Format, app, finish
from noetl.cli.output.screen import Screen
from noetl.errors import NotFound
from noetl.escape import one_line
from noetl.views.styled_text import Styled, folded, table

if TYPE_CHECKING:
    from noetl.output import JSON
    from noetl.secret import Secret
    from noetl.tool import Tools
    from noetl.views.tool_kinds import FieldDocument, KindDocument


@app.command()
def tools(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[KIND]", help="One kind: its complete description.", autocompletion=complete_kind),
    ] = None,
    *,
    mcp: Annotated[
        str | None,
        typer.Option("--mcp", metavar="URL|COMMAND", help="The tools of an MCP server, as tasks of kind `mcp`."),
    ] = None,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="With --mcp URL: a file with a bearer token.")
    ] = None,
    format: Format = "auto",
) -> None:
    """List the installed kinds of tools; or describe one: fields, options, output, an example.

    JSON is an array of `{kind, doc}`, or one `{kind, doc, fields, knobs, output, notes, example}`. With --mcp, KIND is
    the name of a tool of the MCP server. Each tool is printed as a task with its `schema`; `noetl check` compares the
    arguments with it. JSON is then an array of `{name, description, schema}`.

    \b
    Examples:
      noetl tools
      noetl tools http
      noetl tools search --mcp 'python server.py'
    """
    if mcp is not None:
        finish(format, lambda reporter: show_server_tools(reporter, mcp, kind, token_file))
    finish(format, lambda reporter: show_tools(reporter, kind))


def show_server_tools(reporter: Reporter, server: str, name: str | None, token_file: str | None) -> int:
    """Raises NotFound and UsageError."""
    import asyncio

    found = asyncio.run(_describe_server(server, token_file))
    chosen = [each for each in found if name is None or each["name"] == name]
    if not chosen:
        raise NotFound(f'the server has no tool "{name}"; it has {", ".join(str(each["name"]) for each in found)}')
    return reporter.show(chosen, (line for each in chosen for line in _task_lines(server, each)))


@runtime_checkable
class ServerDescriber(Protocol):
    """The part of the tool of kind `mcp` that asks a server for its tools."""

    async def describe(self, server: str | list[str], token: Secret | None) -> list[dict[str, JSON]]: ...

    async def close(self) -> None: ...


async def _describe_server(server: str, token_file: str | None) -> list[dict[str, JSON]]:
    import shlex

    from noetl.errors import install_hint
    from noetl.session.connect import is_url, read_token
    from noetl.session.errors import UsageError
    from noetl.tool import Tools

    tool = Tools.installed().make("mcp")
    assert isinstance(tool, ServerDescriber)
    try:
        if is_url(server):
            return await tool.describe(server, read_token(token_file) if token_file is not None else None)
        return await tool.describe(shlex.split(server), None)
    except ValueError as error:
        raise UsageError(f"--mcp {server}: {error}") from error
    except ImportError as error:
        raise UsageError(f"the package mcp is not installed: {install_hint('mcp')}") from error
    finally:
        await tool.close()


def _task_lines(server: str, found: dict[str, JSON]) -> Iterator[list[Styled]]:
    """A task in YAML."""
    import shlex

    from noetl.cli.output.documents import as_lines
    from noetl.session.connect import is_url

    where = {"url": server} if is_url(server) else {"command": shlex.split(server)}
    schema = found["schema"]
    needed = schema.get("required") if isinstance(schema, dict) else None
    arguments = {name: f"{{{{ workload.{name} }}}}" for name in needed} if isinstance(needed, list) else {}
    task = {"kind": "mcp", **where, "tool": found["name"], "arguments": arguments, "schema": schema}
    yield [Styled(f"# {one_line(' '.join(str(found['description']).split()))}", "faint")]
    for line in as_lines(task):
        yield [Styled(line)]
    yield []


def show_tools(reporter: Reporter, kind: str | None) -> int:
    """Raises NotFound."""
    import msgspec

    from noetl.tool import Tools
    from noetl.views.tool_kinds import summary_of, unfolded

    installed = Tools.installed()
    if kind is None:
        found = {name: unfolded(each.doc) for name, each in installed.kinds().items()}
        rows = [[Styled(name, "kind"), Styled(summary_of(doc))] for name, doc in found.items()]
        documents = [{"kind": name, "doc": doc} for name, doc in found.items()]
        return reporter.show(documents, table(rows, indent=""))
    described = _find(installed, kind)
    reporter.document(msgspec.to_builtins(described))
    if not reporter.json:
        _print_kind(described, reporter.screen)
    return OK


def _find(tools: Tools, name: str) -> KindDocument:
    from difflib import get_close_matches

    from noetl.views.tool_kinds import kind_document

    kinds = tools.kinds()
    if name not in kinds:
        near = get_close_matches(name, kinds, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"installed kinds: {', '.join(kinds)}"
        raise NotFound(f'no tool of kind "{name}" is installed; {hint}')
    return kind_document(kinds[name], str(getattr(tools.make(name), "example", "")))


def _print_kind(kind: KindDocument, screen: Screen) -> None:
    screen.line(Styled(kind.kind, "kind"))
    for paragraph in kind.doc.split("\n\n"):
        screen.line()
        screen.lines(folded([Styled(paragraph)], screen.columns))
    for title, fields in (
        ("Fields", kind.fields),
        ("Options under `spec`", kind.knobs),
        ("Its own part of the output", kind.output),
    ):
        if fields:
            _print_title(screen, title)
            screen.lines(_field_lines(fields, screen.columns))
    _print_title(screen, "Notes")
    for note in kind.notes:
        for place, line in enumerate(folded([Styled(note)], screen.columns - 4)):
            screen.line("    " if place else "  - ", *line)
    if kind.example:
        _print_title(screen, "Example")
        for text in kind.example.rstrip("\n").split("\n"):
            screen.line(f"  {text}")


def _print_title(screen: Screen, title: str) -> None:
    screen.line()
    screen.line(Styled(title, "strong"))


def _quoted(default: JSON) -> str:
    from noetl.views.tool_kinds import as_text

    return f"`{default}`" if isinstance(default, str) else as_text(default)


def _field_lines(fields: Sequence[FieldDocument], columns: int) -> Iterator[list[Styled]]:
    """The name and its type; below it the meaning."""
    for field in fields:
        required = " (required)" if field.required else ""
        default = "" if field.default is None else f", {_quoted(field.default)} by default"
        words = [Styled(field.name, "name"), Styled(f"{required}  {field.value}{default}", "faint")]
        for place, line in enumerate(folded(words, columns - 4)):
            yield [Styled("    " if place else "  "), *line]
        example = "" if field.example is None else f", for example {field.example}"
        for line in folded([Styled(f"{field.meaning}{example}")], columns - 6):
            yield [Styled("      "), *line]
