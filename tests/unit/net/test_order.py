"""The order in which steps are told and drawn."""

from __future__ import annotations

from noetl.net.order import Order, drawing_order


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
