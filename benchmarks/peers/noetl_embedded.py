"""W1–W6 on the embedded runtime of `noetl run`: one process, one SQLite file with `synchronous=FULL`."""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path

from benchmarks import embedded
from benchmarks.peers.orders import Measured, Order, answer, cold
from noetl import __version__
from noetl.runtime.embedded import open_embedded, relax_collector

ONE = embedded.HEAD % "one" + "workflow:\n- {step: start, tool: {kind: noop, input: {n: 1}}}\n"


class Embedded:
    """Each workload uses a new file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    def _file(self) -> Path:
        return self._folder / f"{next(self._numbers)}.db"

    async def warm(self) -> None:
        async with open_embedded(self._file()) as runtime:
            await runtime.wait_until_idle(await runtime.start(await runtime.playbooks.add(embedded.THREE, None), {}))

    async def w1(self, _order: Order) -> Measured:
        return Measured(await embedded.w1(self._file()))

    async def w2(self, _order: Order) -> Measured:
        return Measured(await embedded.w2(self._file()))

    async def w3(self, _order: Order) -> Measured:
        return Measured(*await embedded.w3(self._file()))

    async def w4(self, _order: Order) -> Measured:
        return Measured(await embedded.w4(self._file()))

    async def w5(self, _order: Order) -> Measured:
        playbook = self._folder / "one.yaml"
        playbook.write_text(ONE, "utf-8")
        noetl = str(Path(sys.executable).with_name("noetl"))
        return await cold([noetl, "run", str(playbook), "--db", str(self._file())])

    async def w6(self, _order: Order) -> Measured:
        return await embedded.w6(self._file())


async def main(runtime: Embedded) -> None:
    relax_collector()  # as `noetl run` does
    await runtime.warm()
    works = {"W1": runtime.w1, "W2": runtime.w2, "W3": runtime.w3, "W4": runtime.w4}
    await answer({**works, "W5": runtime.w5, "W6": runtime.w6}, f"NoETL {__version__}")


if __name__ == "__main__":
    asyncio.run(main(Embedded(Path(sys.argv[1]))))
