"""An MCP server over HTTP, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """An ASGI application on a loopback port."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="on", ws="none")
    http = uvicorn.Server(config)
    task = asyncio.ensure_future(http.serve())
    while not http.started:
        await asyncio.wait([task], timeout=0.01)
        assert not task.done()
    port = http.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        http.should_exit = True
        http.force_exit = True
        await task
