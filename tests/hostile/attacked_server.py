"""A server as a process, so that tests can measure its memory. It ends when its standard input closes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from noetl.server.services import ServerSettings
from tests.api.servers import opened

# Timeouts are shorter than the defaults, so that the test is short; all other settings are defaults.
DOOR = ServerSettings(open=True, headers_s=5.0, requests_per_s=5, requests_burst=800)


async def main(folder: Path) -> None:
    async with opened(folder, DOOR) as server:
        print(server.server.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
