"""Streams into files: what is given up leaves nothing behind, and no descriptor is closed under a thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event

import pytest

from noetl.adapters.files import MEMORY_PARTS_MAX, FileResults, in_thread, spooled
from noetl.adapters.result_refs import PART_BYTES, resized
from noetl.errors import Rejected

PIECE = b"x" * 700_001
FULL = """
import asyncio, resource, sys
from pathlib import Path
from noetl.adapters.files import FileResults
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

async def pieces():
    for _ in range(10):
        yield b"x" * 1_000_000

try:
    asyncio.run(FileResults(Path(sys.argv[1])).write("e", pieces(), "text/plain"))
except Exception as error:
    print(type(error).__name__, error)
"""


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield PIECE


def test_a_stream_that_does_not_fit_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("Unavailable storage full: "), done.stderr
    assert list((tmp_path / "e").iterdir()) == []


def test_a_stream_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(5):
                yield PIECE
            begun.set()
            await asyncio.get_running_loop().create_future()

        writing = asyncio.ensure_future(FileResults(tmp_path).write("e", endless(), "text/plain"))
        await begun.wait()
        assert len(list((tmp_path / "e").iterdir())) == 1
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

    asyncio.run(main())
    assert list((tmp_path / "e").iterdir()) == []


def test_a_cancellation_waits_for_the_thread() -> None:
    begun, go_on = Event(), Event()
    done: list[str] = []

    def slow() -> None:
        begun.set()
        go_on.wait(60)
        done.append("thread")

    async def main() -> None:
        task = asyncio.ensure_future(in_thread(slow))
        await asyncio.to_thread(begun.wait, 60)
        for _ in range(3):  # also when it is asked for again and again
            task.cancel()
            await asyncio.wait([task], timeout=0.01)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        done.append("cancelled")

    asyncio.run(main())
    assert done == ["thread", "cancelled"]


@pytest.mark.parametrize("count", [0, 1, 3, 20])
def test_a_spooled_stream_is_whole_in_memory_or_in_a_file_that_goes(count: int) -> None:
    async def main() -> None:
        async with spooled("e", pieces(count)) as whole:
            path = whole.body if isinstance(whole.body, Path) else None
            body = path.read_bytes() if path is not None else whole.body
            assert body == PIECE * count
            assert (path is not None) is (len(PIECE) * count > MEMORY_PARTS_MAX * PART_BYTES)
            assert whole.name.size == len(PIECE) * count
        assert path is None or not path.exists()

    asyncio.run(main())


def test_a_spooled_stream_that_breaks_off_leaves_no_file_open() -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield PIECE
        raise ConnectionError

    def spools() -> list[str]:
        return [path for each in Path("/proc/self/fd").iterdir() if "/noetl-" in (path := str(each.resolve()))]

    async def main() -> None:
        before = spools()  # of others in this process
        with pytest.raises(ConnectionError):
            async with spooled("e", broken()):
                raise AssertionError("it was whole")
        assert spools() == before

    asyncio.run(main())


def test_an_id_that_is_none_is_refused_before_anything_is_read() -> None:
    async def main() -> None:
        with pytest.raises(Rejected):
            async with spooled("../e", pieces(1)):
                raise AssertionError("it was taken")

    asyncio.run(main())


@pytest.mark.parametrize("sizes", [[], [1], [5, 5], [3, 3, 3], [11], [0, 0, 2], [10, 0, 5], [4, 20, 1]])
def test_pieces_are_cut_to_one_size_and_nothing_is_lost(sizes: list[int]) -> None:
    body = bytes(range(sum(sizes)))

    async def given() -> AsyncIterator[bytes]:
        at = 0
        for size in sizes:
            yield body[at : at + size]
            at += size

    async def main() -> list[bytes]:
        return [piece async for piece in resized(given(), 5)]

    found = asyncio.run(main())
    assert b"".join(found) == body
    assert all(len(piece) == 5 for piece in found[:-1])
    assert all(found)


def test_a_folder_that_is_cleared_meanwhile_is_made_again(tmp_path: Path) -> None:
    async def work() -> None:
        results = FileResults(tmp_path)

        async def one(number: int) -> None:
            body = b"%d" % number
            ref = await (
                results.put("e", body, "text/plain") if number % 2 else results.write("e", in_one(body), "text/plain")
            )
            assert await results.get(ref) == body
            await results.drop([ref["locator"]["key"]])

        await asyncio.gather(*(one(number) for number in range(300)))
        assert [kept async for kept in results.kept()] == []

    async def in_one(body: bytes) -> AsyncIterator[bytes]:
        yield body

    asyncio.run(work())
