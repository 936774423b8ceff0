"""W1–W4 and W6 on a cluster of `noetl up`: PostgreSQL, NATS, a server and two workers on one machine.

The same run measures commits of one row in its PostgreSQL.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks import distributed, embedded
from benchmarks.peers.orders import Measured, Order, answer
from noetl import __version__
from noetl.client import Client


class Distributed:
    """A running cluster, from the output of `noetl up`."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told

    async def _by(self, work: Callable[[Client], Awaitable[Any]]) -> Any:
        token = Path(self._told["token_file"]).read_text("ascii").strip()
        async with Client(self._told["url"], token) as client:
            return await work(client)

    async def warm(self) -> None:
        async def three(client: Client) -> None:
            registered = await client.register(embedded.THREE)
            await client.run(registered.path, {}, timeout_s=distributed.WAIT_S)

        await self._by(three)

    async def w1(self, _order: Order) -> Measured:
        return Measured(await self._by(distributed.w1))

    async def w2(self, _order: Order) -> Measured:
        return Measured(await self._by(distributed.w2))

    async def w3(self, _order: Order) -> Measured:
        return Measured(*await self._by(distributed.w3))

    async def w4(self, _order: Order) -> Measured:
        return Measured(await self._by(distributed.w4))

    async def w6(self, _order: Order) -> Measured:
        measured: Measured = await self._by(distributed.w6)
        return measured

    async def commits(self, _order: Order) -> Measured:
        return Measured(await distributed._commits(self._told["folder"]))


async def main(runtime: Distributed) -> None:
    await runtime.warm()
    works = {"W1": runtime.w1, "W2": runtime.w2, "W3": runtime.w3, "W4": runtime.w4}
    await answer({**works, "W6": runtime.w6, "rows": runtime.commits}, f"NoETL {__version__}")


if __name__ == "__main__":
    with distributed.open_trial_cluster(Path(sys.argv[1])) as told:
        asyncio.run(main(Distributed(told)))
