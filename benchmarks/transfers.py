"""Large transfers: a download into the result store, and writes and reads of each store, by size.

The download runs in a separate process, so that its memory can be measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from aiohttp import web

from benchmarks.sizes import scaled
from noetl.adapters.files import FileResults
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.results import SqliteResults
from noetl.clock import SystemClock
from noetl.ports import ResultStore

Row = tuple[str, float, str]
DOWNLOAD_BYTES = scaled(1 << 30, 1 << 24)
PIECE = os.urandom(1 << 20)
SIZES = {"1 KB": 1_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
ROUNDS = {"1 KB": scaled(200, 5), "1 MB": scaled(40, 2), "10 MB": scaled(8, 1)}

CHILD = """
import asyncio, sys
from pathlib import Path
from noetl.adapters.files import FileResults
from noetl.server.child_process import peak_kib
from noetl.tool import Call
from noetl.tools.http.tool import HttpInput, HttpTool

async def main():
    http = HttpTool()
    results = FileResults(Path(sys.argv[2]))
    call = Call("k", 1, "e", {}, None, {"timeout": 600}, results)
    await http.run(HttpInput(url=sys.argv[1] + "?bytes=1000000", response="file"), call)
    before = peak_kib()
    output = await http.run(HttpInput(url=sys.argv[1], response="file"), call)
    assert output.status == "ok", output.error
    size = 0
    async for chunk in results.read(output.ref):
        size += len(chunk)
    assert size == output.ref["meta"]["bytes"]
    print(before, peak_kib(), size)
    await http.close()

asyncio.run(main())
"""


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_download(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(_stores(Path(folder)))


async def _download(folder: Path) -> list[Row]:
    async def handler(request: web.Request) -> web.StreamResponse:
        left = int(request.query.get("bytes", DOWNLOAD_BYTES))
        answer = web.StreamResponse(headers={"Content-Length": str(left)})
        await answer.prepare(request)
        while left > 0:
            await answer.write(PIECE[:left])
            left -= len(PIECE)
        return answer

    application = web.Application()
    application.router.add_get("/", handler)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    begun = time.perf_counter()
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, url, str(folder), stdout=subprocess.PIPE)
    said, _ = await child.communicate()
    seconds = time.perf_counter() - begun
    await runner.cleanup()
    before, peak, size = map(int, said.split())
    return [
        ("transfers: 1 GiB by http, response: file, and read back", size / seconds / 1e6, "MB/s"),
        ("transfers: 1 GiB by http, peak memory", peak / 1024, "MB"),
        ("transfers: 1 GiB by http, memory over 1 MB", (peak - before) / 1024, "MB"),
    ]


async def _stores(folder: Path) -> list[Row]:
    rows: list[Row] = []
    database = open_sqlite(folder / "n.db", SystemClock())
    stores: dict[str, ResultStore] = {
        "files": FileResults(folder / "results"),
        "sqlite": SqliteResults(database),
    }
    for name, store in stores.items():
        for size, count in SIZES.items():
            rows += await _one(name, store, size, count)
    database.close()
    return rows


async def _one(name: str, store: ResultStore, size: str, count: int) -> list[Row]:
    bodies = [hashlib.sha256(b"%d" % turn).digest() + bytes(count - 32) for turn in range(ROUNDS[size])]
    begun = time.perf_counter()
    refs = [await store.put("e", body, "text/plain") for body in bodies]
    put = time.perf_counter() - begun
    begun = time.perf_counter()
    for ref in refs:
        await store.get(ref)
    get = time.perf_counter() - begun
    begun = time.perf_counter()
    await store.write("f", _pieces(bodies[0]), "text/plain")
    write = time.perf_counter() - begun
    return [
        (f"results: put of {size} ({name})", put / len(bodies) * 1_000, "ms"),
        (f"results: get of {size} ({name})", get / len(bodies) * 1_000, "ms"),
        (f"results: write of {size} ({name})", write * 1_000, "ms"),
    ]


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for first in range(0, len(body), 65_536):
        yield body[first : first + 65_536]
