"""Results in files: whole or not there, inside their root, and never trusted without their digest."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from noetl.adapters import files
from noetl.adapters.files import FileResults
from noetl.errors import Damaged, NotFound, Rejected, Unavailable
from noetl.output import JSON

LARGE = b"large" * 500_000
FULL = """
import asyncio, resource, sys
from pathlib import Path
from noetl.adapters.files import FileResults
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
results = FileResults(Path(sys.argv[1]))
asyncio.run(results.put("e", b"x" * 1_000, "text/plain"))
try:
    asyncio.run(results.put("e", b"x" * 1_000_000, "text/plain"))
except Exception as error:
    print(type(error).__name__, error)
"""


def put(root: Path, body: bytes = b"body", execution_id: str = "e") -> dict[str, JSON]:
    return asyncio.run(FileResults(root).put(execution_id, body, "text/plain"))


def get(root: Path, ref: dict[str, JSON]) -> bytes:
    return asyncio.run(FileResults(root).get(ref))


def file_of(root: Path, ref: dict[str, JSON]) -> Path:
    return root / str(ref["locator"]["key"])


@pytest.mark.parametrize("body", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_what_was_put_is_there_for_another_process_and_nobody_else(body: bytes, tmp_path: Path) -> None:
    root = tmp_path / "a" / "results"
    ref = put(root, body)
    assert get(root, ref) == body
    assert file_of(root, ref).read_bytes() == body
    assert file_of(root, ref).stat().st_mode & 0o077 == 0
    assert [each.name for each in (root / "e").iterdir()] == [ref["meta"]["sha256"]]


def test_the_same_body_is_not_written_twice(tmp_path: Path) -> None:
    ref = put(tmp_path)
    before = file_of(tmp_path, ref).stat()
    assert put(tmp_path) == ref
    after = file_of(tmp_path, ref).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_many_puts_of_the_same_body_at_once_are_one(tmp_path: Path) -> None:
    async def work() -> list[dict[str, JSON]]:
        results = FileResults(tmp_path)
        return await asyncio.gather(*(results.put("e", LARGE, "text/plain") for _ in range(8)))

    refs = asyncio.run(work())
    assert all(ref == refs[0] for ref in refs)
    assert get(tmp_path, refs[0]) == LARGE
    assert len(list((tmp_path / "e").iterdir())) == 1


async def pieces(size: int) -> AsyncIterator[bytes]:
    for first in range(0, len(LARGE), size):
        yield LARGE[first : first + size]


@pytest.mark.parametrize("as_stream", [False, True])
def test_a_large_result_is_synced_as_it_is_written(
    as_stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise commits of a database on the same disk would wait until all of it is on the disk."""
    sizes = [0]

    def sync(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(files, "_sync_data", sync)
    results = FileResults(tmp_path)
    if as_stream:
        ref = asyncio.run(results.write("e", pieces(300_000), "text/plain"))
    else:
        ref = asyncio.run(results.put("e", LARGE, "text/plain"))
    assert get(tmp_path, ref) == LARGE
    sizes.append(len(LARGE))
    assert max(after - before for before, after in pairwise(sizes)) <= files.SYNC_BYTES
    assert len(sizes) == 4  # the rest is synced at the end, with the size of the file


@pytest.mark.parametrize("body", [b"small", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "grown", "emptied"])
def test_damage_is_seen(damage: str, body: bytes, tmp_path: Path) -> None:
    ref = put(tmp_path, body)
    spoilt = {
        "flipped": body[:-1] + bytes([body[-1] ^ 1]),
        "cut": body[:-1],
        "grown": body + b"x",
        "emptied": b"",
    }
    file_of(tmp_path, ref).write_bytes(spoilt[damage])
    with pytest.raises(Damaged, match="has changed since it was stored"):
        get(tmp_path, ref)


def test_a_file_of_another_size_is_written_anew(tmp_path: Path) -> None:
    ref = put(tmp_path)
    file_of(tmp_path, ref).write_bytes(b"bo")
    assert put(tmp_path) == ref
    assert get(tmp_path, ref) == b"body"


def test_a_torn_temporary_file_is_no_result_and_in_nobodys_way(tmp_path: Path) -> None:
    ref = put(tmp_path)
    digest = str(ref["meta"]["sha256"])
    file_of(tmp_path, ref).rename(tmp_path / "e" / f".{digest}.1.0")
    with pytest.raises(NotFound):
        get(tmp_path, ref)
    torn = {**ref, "locator": {"key": f"e/.{digest}.1.0"}}
    with pytest.raises(NotFound):
        get(tmp_path, torn)
    assert put(tmp_path) == ref
    assert get(tmp_path, ref) == b"body"


@pytest.mark.parametrize("execution_id", ["", ".", "..", "../e", "a/b", "a\0b", "é", "x" * 65, "e\n"])
def test_an_id_that_is_none_never_reaches_the_disk(execution_id: str, tmp_path: Path) -> None:
    root = tmp_path / "results"
    with pytest.raises(Rejected, match="bad-id"):
        put(root, execution_id=execution_id)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "key", ["../secret", "/etc/passwd", "e/../../secret", "e/" + "A" * 64, "e/" + "0" * 63, None, 3]
)
def test_a_reference_out_of_the_root_finds_nothing(key: JSON, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"body")
    ref = put(tmp_path / "results")
    with pytest.raises(NotFound):
        get(tmp_path / "results", {**ref, "locator": {"key": key}})


@pytest.mark.parametrize("ref", [{}, {"locator": {}}, {"locator": {"key": "e/" + "0" * 64}, "meta": {"bytes": "1"}}])
def test_a_reference_of_another_shape_finds_nothing(ref: dict[str, JSON], tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        get(tmp_path, ref)


def test_no_symbolic_link_is_followed(tmp_path: Path) -> None:
    root = tmp_path / "results"
    ref = put(root)
    file = file_of(root, ref)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Damaged, match="regular file"):
        get(root, ref)
    (root / "linked").symlink_to(tmp_path)
    with pytest.raises(Damaged, match="regular file"):
        put(root, execution_id="linked")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "results"]


def test_a_root_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be created"):
        put(tmp_path / "file" / "results")


def test_when_it_does_not_fit_it_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    root = tmp_path / "results"
    done = subprocess.run([sys.executable, "-c", FULL, str(root)], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("Unavailable storage full: no space for result e/"), done.stderr
    assert [each.stat().st_size for each in (root / "e").iterdir()] == [1_000]


def test_a_root_that_went_away_is_made_again(tmp_path: Path) -> None:
    async def work() -> None:
        results = FileResults(tmp_path / "results")
        ref = await results.put("e", b"body", "text/plain")
        (tmp_path / "results").rename(tmp_path / "moved")
        with pytest.raises(NotFound):
            await results.get(ref)
        assert await results.put("e", b"body", "text/plain") == ref
        assert await results.get(ref) == b"body"

    asyncio.run(work())
