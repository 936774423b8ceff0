"""Reachability, components, cycles and the order in which vertices are drawn."""

from __future__ import annotations

from noetl.net.graph import Order, components, cycles, descendants, drawing_order, reachable


def test_reachable_includes_its_starts_and_follows_circles() -> None:
    assert reachable(["a"], {"a": ["b"], "b": ["a", "c"], "d": ["a"]}) == {"a", "b", "c"}


def test_components_come_after_those_they_lead_to() -> None:
    assert components({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": []}) == [["d"], ["b", "c"], ["a"]]


def test_a_circle_is_a_component_one_can_go_round_in() -> None:
    follows = {"a": ["b"], "b": ["a"], "c": ["c"], "d": ["a"]}
    assert cycles(follows) == [["a", "b"], ["c"]]


def test_descendants_are_masks_over_the_order_of_the_graph() -> None:
    masks = descendants({"a": ["b", "c"], "b": ["d"], "c": [], "d": ["b"]})
    assert masks == {"a": 0b1111, "b": 0b1010, "c": 0b0100, "d": 0b1010}


def test_a_chain_of_100_000_needs_no_recursion() -> None:
    follows = {number: [number + 1] for number in range(100_000)}
    assert len(components(follows)) == 100_001


def test_branches_come_before_what_they_meet_in() -> None:
    follows = {"start": ["a", "b"], "a": ["join"], "b": ["join"], "join": []}
    assert drawing_order(["start"], follows) == Order(("start", "a", "b", "join"), frozenset())


def test_a_way_to_an_earlier_step_or_to_itself_leads_back() -> None:
    follows = {"start": ["poll"], "poll": ["poll", "wait", "done"], "wait": ["poll"], "done": []}
    order = drawing_order(["start"], follows)
    assert order == Order(("start", "poll", "wait", "done"), frozenset({("poll", "poll"), ("wait", "poll")}))


def test_of_a_circle_the_arc_that_was_written_first_leads_on() -> None:
    order = drawing_order(["a"], {"a": ["b", "c"], "b": ["c"], "c": ["b"]})
    assert order == Order(("a", "b", "c"), frozenset({("c", "b")}))


def test_what_the_entry_does_not_reach_comes_last_in_the_order_of_writing() -> None:
    follows = {"lost": ["end_of_lost"], "start": ["a"], "a": [], "end_of_lost": [], "alone": []}
    order = drawing_order(["start", *follows], follows)
    assert order.names == ("start", "a", "lost", "end_of_lost", "alone")


def test_ten_thousand_steps_in_a_row_do_not_exhaust_the_stack() -> None:
    follows = {str(place): [str(place + 1)] for place in range(10_000)}
    assert len(drawing_order(["0"], follows).names) == 10_001
