"""`with_postgres FOLDER COMMAND …`: run a command with a PostgreSQL server as in `noetl up`.

The environment passes the address, because it contains a password.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from noetl.clock import SystemClock
from noetl.runtime.devcluster.folder import Folder
from noetl.runtime.devcluster.processes import ManagedProcess
from noetl.runtime.devcluster.services import Postgres

ADDRESS = "BENCH_DATABASE"


async def main(place: Path, command: list[str]) -> int:
    clock = SystemClock()
    folder = Folder(place / "postgres")
    lock = await folder.wait_for_leftovers(clock)
    postgres = Postgres(folder, clock)
    await postgres.initialise()
    child = ManagedProcess(postgres.spec(), place / "postgres.log", clock, lock)
    try:
        await child.start()
        await postgres.create_database()
        environment = {**os.environ, ADDRESS: postgres.url()}
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        return await process.wait()
    finally:
        await child.stop()
        folder.close()


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2:])))
