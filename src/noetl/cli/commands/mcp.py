"""`noetl mcp`: the verbs of NoETL for agents, over the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.execute import OK
from noetl.cli.options import Db, Server, app, finish
from noetl.errors import install_hint
from noetl.session.errors import UsageError


@app.command()
def mcp(
    *,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Leave out the tools that run, fork, signal or cancel executions.")
    ] = False,
    db: Db = None,
    server: Server = None,
) -> None:
    """Serve an agent over standard input and output, with the Model Context Protocol.

    Clients start it themselves. Its tools write, check, plan, test, run, explain and fork playbooks; registered
    playbooks with `metadata.expose_as_tool` are additional tools. Executions run in this process and stop with it;
    with --server they run on the server. A server also offers the same tools over HTTP, at /mcp, with its tokens and
    roles.

    \b
    Examples:
      noetl mcp --read-only
      noetl mcp --db agent.db
      noetl mcp --server https://noetl.example.com
    """
    finish("auto", lambda _: serve_agent(db, server, read_only=read_only))


def serve_agent(db: str | None, server: str | None, *, read_only: bool) -> int:
    import asyncio
    import sys
    from contextlib import AsyncExitStack

    from noetl.session.connect import open_session, resolve

    try:
        from noetl.mcp.context import VerbContext, installed
        from noetl.mcp.server import serve_stdio
    except ImportError as error:
        raise UsageError(f"the server for agents needs the package mcp: {install_hint('mcp')}") from error

    async def serve() -> None:
        target = resolve(db, server)
        session = open_session(target, create=not read_only)
        async with AsyncExitStack() as stack:
            if target.is_new_file:  # it is opened when a verb needs it, which fails while there is none to read
                stack.push_async_callback(session.close)
            else:
                await stack.enter_async_context(session)
            await serve_stdio(VerbContext(session, installed(), files=True, read_only=read_only))

    if sys.stdin.isatty():
        typer.echo("noetl: waits for an MCP client, which starts this command itself; end it with Ctrl+D", err=True)
    asyncio.run(serve())
    return OK
