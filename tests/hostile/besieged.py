"""A server in a process of its own, so that one sees what it takes of the machine. It ends with its standard input."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from noetl.server.services import ServerSettings
from tests.api.servers import opened

# Patience is shorter than it is by default, so that nobody waits for a test; the rest is as it always is.
DOOR = ServerSettings(open=True, headers_s=5.0, requests_per_s=5, requests_burst=800)


async def main(folder: Path) -> None:
    async with opened(folder, DOOR) as world:
        print(world.server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
