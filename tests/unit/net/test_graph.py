"""Reachability, components and circles."""

from __future__ import annotations

from noetl.net.graph import circles, components, descendants, reachable


def test_reachable_includes_its_starts_and_follows_circles() -> None:
    assert reachable(["a"], {"a": ["b"], "b": ["a", "c"], "d": ["a"]}) == {"a", "b", "c"}


def test_components_come_after_those_they_lead_to() -> None:
    assert components({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": []}) == [["d"], ["b", "c"], ["a"]]


def test_a_circle_is_a_component_one_can_go_round_in() -> None:
    follows = {"a": ["b"], "b": ["a"], "c": ["c"], "d": ["a"]}
    assert circles(follows) == [["a", "b"], ["c"]]


def test_descendants_are_masks_over_the_order_of_the_graph() -> None:
    masks = descendants({"a": ["b", "c"], "b": ["d"], "c": [], "d": ["b"]})
    assert masks == {"a": 0b1111, "b": 0b1010, "c": 0b0100, "d": 0b1010}


def test_a_chain_of_100_000_needs_no_recursion() -> None:
    follows = {number: [number + 1] for number in range(100_000)}
    assert len(components(follows)) == 100_001
