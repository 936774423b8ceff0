"""The bounded cache: its limit, its order, and sizes of values."""

from __future__ import annotations

from noetl.cache import BoundedCache


def test_the_least_recently_used_entry_is_removed() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    assert cache.put("c", 3) == 3
    assert cache.items() == [("a", 1), ("c", 3)]
    assert cache.get("b") is None


def test_peek_does_not_change_the_age_of_an_entry() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.peek("a") == 1
    cache.put("c", 3)
    assert list(cache) == ["b", "c"]


def test_a_stored_entry_replaces_the_old_one_and_is_the_newest() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3)):
        cache.put(key, value)
    assert (len(cache), cache.items()) == (2, [("b", 2), ("a", 3)])


def test_sizes_limit_the_total_and_the_newest_entry_always_stays() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(10, len)
    cache.put("a", b"x" * 6)
    cache.put("b", b"x" * 4)
    assert list(cache) == ["a", "b"]
    cache.put("c", b"x" * 5)
    assert list(cache) == ["b", "c"]
    cache.put("d", b"x" * 100)
    assert list(cache) == ["d"]
    cache.put("e", b"x")
    assert list(cache) == ["e"]


def test_removed_entries_no_longer_count() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(10, len)
    cache.put("a", b"x" * 9)
    assert cache.pop("a") == b"x" * 9
    assert cache.pop("a") is None
    cache.put("b", b"x" * 9)
    assert "b" in cache
    cache.clear()
    cache.put("c", b"x" * 10)
    assert (list(cache), "b" in cache) == (["c"], False)
