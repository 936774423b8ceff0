"""Results in files keep the contract, and nothing that they are asked for leads out of their folder."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from noetl.adapters.files import FileResults
from noetl.output import JSON
from noetl.testing.contracts import error_of
from noetl.testing.contracts.results import HOSTILE, ClearableStore, ResultStoreContract


def flipped(body: bytes) -> bytes:
    """With one bit of its last byte changed."""
    return body[:-1] + bytes([body[-1] ^ 1])


class TestFileResults(ResultStoreContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.root = tmp_path / "results"

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[ClearableStore]:
        yield FileResults(self.root)

    async def damage(self, ref: dict[str, JSON]) -> None:
        file = self.root / ref["locator"]["key"]
        file.write_bytes(flipped(file.read_bytes()))


def tree(root: Path) -> str:
    """Names, kinds and contents of everything there, as one digest."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        digest.update(repr((str(path), path.is_symlink(), content)).encode())
    return digest.hexdigest()


def test_60_hostile_names_leave_what_lies_outside_the_root_as_it_was(tmp_path: Path) -> None:
    assert len(set(HOSTILE)) >= 60
    outside, root = tmp_path / "outside", tmp_path / "outside" / "store" / "results"
    (outside / "f").mkdir(parents=True)
    (outside / "secret").write_text("secret")

    async def work() -> None:
        results = FileResults(root)
        ref = await results.put("e", b"x", "text/plain")
        (root / "link").symlink_to(outside)
        (root / "e" / ("0" * 64)).symlink_to(outside / "secret")
        inside, before = root / "e", tree(outside)
        for name in (*HOSTILE, "link/secret", f"link/{'0' * 64}", f"e/{'0' * 64}"):
            digest = name[-64:]
            other = {**ref, "locator": {"key": name}, "meta": {**ref["meta"], "sha256": digest}}
            assert await error_of(results.get(other)) is not None
            await results.drop([name] if name != f"e/{'0' * 64}" else [])
            if name not in ("CON",):
                assert await error_of(results.put(name, b"x", "text/plain")) is not None
        assert inside.is_dir()
        assert tree(outside) == before

    asyncio.run(work())
