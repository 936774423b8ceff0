"""Several result stores as one, and how `spec.result` keeps what a task gives back (D51, D53, D60)."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.files import FileResults
from noetl.adapters.sqlite.database import open_sqlite
from noetl.adapters.sqlite.results import SqliteResults
from noetl.clock import SystemClock
from noetl.errors import Damaged, NotFound, Rejected
from noetl.output import JSON
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.testing.contracts.results import all_of
from noetl.worker.result_stores import INLINE_BYTES_LIMIT, NamedStore, ResultPolicy, ResultStores, seconds_of

LARGE = b'{"rows":[' + b'{"id":1,"name":"one"},' * 100_000 + b"null]}"


def with_stores(tmp_path: Path, work: Callable[[ResultStores], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        database = open_sqlite(tmp_path / "n.db", SystemClock())
        try:
            files = NamedStore("files", FileResults(tmp_path / "results"))
            return await work(ResultStores([files, NamedStore("sqlite", SqliteResults(database))]))
        finally:
            database.close()

    return asyncio.run(main())


def test_a_ref_is_found_in_the_store_that_it_points_into(tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        near = await stores.put("e", b"near", "text/plain")
        table = await stores.select({"kind": "sqlite"}).put("e", b"table", "text/plain")
        assert [near["type"], table["type"]] == ["blob", "relational"]
        assert table["locator"]["store"] == "sqlite"
        assert [await stores.get(near), await stores.get(table)] == [b"near", b"table"]
        assert await all_of(stores.read(table)) == b"table"

    with_stores(tmp_path, work)


def test_a_ref_into_a_store_that_is_not_here_is_not_found(tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        ref = await stores.put("e", b"x", "text/plain")
        for other in (
            {**ref, "type": "object_store"},
            {**ref, "locator": {**ref["locator"], "bucket": "b"}},
            {"type": "blob"},
            {},
        ):
            with pytest.raises(NotFound):
                await stores.get(other)

    with_stores(tmp_path, work)


@pytest.mark.parametrize(
    "wanted", [{"kind": "s3"}, {"kind": "files", "bucket": "b"}, {"kind": "sqlite", "auth": "key"}, {}]
)
def test_a_playbook_reaches_only_stores_that_are_configured(wanted: dict[str, JSON], tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        with pytest.raises(Rejected, match=r'unknown-store.*configured: "files", "sqlite"'):
            stores.select(wanted)

    with_stores(tmp_path, work)


def test_what_is_packed_comes_back_as_it_was(tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        keeping = ResultPolicy(compression="gzip")
        ref = await keeping.put(stores, "e", LARGE)
        assert ref["meta"]["encoding"] == "gzip"
        assert ref["meta"]["bytes"] < len(LARGE) / 20
        assert ref["meta"]["unpacked_bytes"] == len(LARGE)
        assert await stores.get(ref) == LARGE
        assert await all_of(stores.read(ref)) == LARGE
        assert await keeping.put(stores, "e", LARGE) == ref

    with_stores(tmp_path, work)


def test_what_does_not_become_smaller_is_kept_as_it_is(tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        ref = await ResultPolicy(compression="gzip").put(stores, "e", b'"small"')
        assert "encoding" not in ref["meta"]

    with_stores(tmp_path, work)


def test_a_bomb_does_not_go_off(tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        bomb = await stores.put("e", zlib.compress(bytes(200_000_000), 9, 31), "application/json")
        for size in (0, 10, 1_000_000):
            with pytest.raises(Damaged, match="larger than its reference says"):
                await stores.get({**bomb, "meta": {**bomb["meta"], "encoding": "gzip", "unpacked_bytes": size}})

    with_stores(tmp_path, work)


@pytest.mark.parametrize(
    "meta",
    [
        {"encoding": "gzip"},
        {"encoding": "gzip", "unpacked_bytes": -1},
        {"encoding": "gzip", "unpacked_bytes": 1 << 60},
        {"encoding": "br", "unpacked_bytes": 9},
        {"encoding": None, "unpacked_bytes": 9},
        {"encoding": "gzip", "unpacked_bytes": 9},
    ],
)
def test_a_packing_that_nobody_knows_is_damage(meta: dict[str, JSON], tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        ref = await stores.put("e", b"no gzip at all", "application/json")
        with pytest.raises(Damaged):
            await stores.get({**ref, "meta": {**ref["meta"], **meta}})

    with_stores(tmp_path, work)


def test_a_packed_result_that_was_cut_short_is_damage(tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        half = await stores.put("e", zlib.compress(LARGE, 3, 31)[:-20], "application/json")
        with pytest.raises(Damaged):
            await stores.get({**half, "meta": {**half["meta"], "encoding": "gzip", "unpacked_bytes": len(LARGE)}})

    with_stores(tmp_path, work)


def test_without_a_word_of_it_results_are_kept_by_default() -> None:
    specs: list[dict[str, JSON]] = [{}, {"result": None}, {"result": {}}]
    for spec in specs:
        assert ResultPolicy.of(spec) == ResultPolicy(INLINE_BYTES_MAX, None, None, "none")


def test_a_limit_that_the_log_could_not_bear_is_cut() -> None:
    assert ResultPolicy.of({"result": {"inline_max_bytes": 1 << 40}}).inline_max == INLINE_BYTES_LIMIT
    assert ResultPolicy.of({"result": {"inline_max_bytes": 0}}).inline_max == 0


@pytest.mark.parametrize(
    "result",
    [
        {"inline_max_bytes": -1},
        {"inline_max_bytes": "64k"},
        {"inline_max_bytes": True},
        {"store": 3},
        {"ttl": "soon"},
        {"ttl": True},
        {"compression": "lzma"},
    ],
)
def test_what_is_no_way_of_keeping_is_refused(result: dict[str, JSON]) -> None:
    with pytest.raises(Rejected, match=r"bad-spec: spec\.result"):
        ResultPolicy.of({"result": result})


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (90, 90.0),
        ("90", 90.0),
        ("90s", 90.0),
        ("1.5m", 90.0),
        ("24h", 86_400.0),
        ("7d", 604_800.0),
        ("2w", 1_209_600.0),
    ],
)
def test_a_length_of_time_is_a_number_with_or_without_a_unit(said: JSON, seconds: float) -> None:
    assert seconds_of(said) == seconds


@pytest.mark.parametrize("said", [None, "", "h", "-1h", "1y", True, [], "1e9", "9" * 20])
def test_other_words_are_no_length_of_time(said: JSON) -> None:
    assert seconds_of(said) is None


def test_the_time_to_live_stands_in_refs_of_the_executions_own(tmp_path: Path) -> None:
    async def work(stores: ResultStores) -> None:
        keeping = ResultPolicy(ttl="7d")
        own, other = await keeping.put(stores, "e", LARGE), await stores.put("f", LARGE, "text/plain")
        assert own["meta"]["ttl"] == "7d"
        assert keeping.with_ttl("e", other) == other
        assert keeping.with_ttl("e", {"type": "relational", "locator": {"run": "a#1"}}) == {
            "type": "relational",
            "locator": {"run": "a#1"},
        }
        assert await stores.get(own) == LARGE

    with_stores(tmp_path, work)
