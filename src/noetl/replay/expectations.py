"""Compare an execution with what a test expects, and say what differs, briefly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET

from noetl.engine.facts import StepScheduled, TaskDone
from noetl.escape import one_line, shorten
from noetl.output import JSON
from noetl.replay.adapter import ReplayAdapter
from noetl.replay.execution import WAITING, ReplayedExecution
from noetl.replay.suite import Expectation
from noetl.views.test_results import Mismatch

VALUE_CHARS_MAX = 200
DIFFERENCES_MAX = 20  # of one value
MISSES_SHOWN_MAX = 5


def route_of(replayed: ReplayedExecution) -> list[str]:
    """The steps of the execution in the order of scheduling, without blocks and compensations."""
    return [
        event.fact.step
        for event in replayed.log()
        if isinstance(event.fact, StepScheduled) and event.fact.parent is None and event.fact.compensates is None
    ]


def mismatches(expect: Expectation, replayed: ReplayedExecution, adapter: ReplayAdapter) -> list[Mismatch]:
    return [
        *_of_adapter(adapter),
        *_of_end(expect, replayed),
        *_of_route(expect, route_of(replayed)),
        *_of_values(expect, replayed),
        *_of_counts(expect, replayed, adapter),
        *_of_duration(expect, replayed),
    ]


def _of_adapter(adapter: ReplayAdapter) -> Iterator[Mismatch]:
    for text in adapter.errors:
        yield Mismatch(what="answers", expected="an answer for each call", actual=text)
    # `on_miss: "null"` answers ok.
    missed = [each for each in adapter.misses if each.output.status == "error"][len(adapter.errors) :]
    for each in missed[:MISSES_SHOWN_MAX]:
        call = each.call
        given = shown(call.scope["input"])
        actual = f"call {call.number} in {call.frame} has none; its input is {given}"
        yield Mismatch(what=call.name, expected="a stub or a recorded call", actual=actual)
    if len(missed) > MISSES_SHOWN_MAX:
        more = f"{len(missed) - MISSES_SHOWN_MAX:,} more calls have none"
        yield Mismatch(what="calls", expected="a stub or a recorded call", actual=more)


def _of_end(expect: Expectation, replayed: ReplayedExecution) -> Iterator[Mismatch]:
    if expect.status is not None and expect.status != replayed.status:
        actual = replayed.status
        if replayed.status == WAITING:
            names = ", ".join(f'"{name}"' for name in replayed.waits_for)
            actual += f": no signal {names} is given under `signals`"
        elif replayed.error is not None:
            actual += f": {replayed.error.kind}: {one_line(replayed.error.message)}"
        yield Mismatch(what="status", expected=expect.status, actual=shorten(actual, 2 * VALUE_CHARS_MAX))
    if expect.error is not None:
        error = None if replayed.error is None else replayed.error.view()
        yield from differing("error", expect.error, error)


def _of_route(expect: Expectation, route: Sequence[str]) -> Iterator[Mismatch]:
    if expect.route is not None and list(expect.route) != list(route):
        yield Mismatch(what="route", expected=_steps(expect.route), actual=_steps(route))
    if expect.route_contains is not None:
        rest = iter(route)
        if not all(step in rest for step in expect.route_contains):
            yield Mismatch(what="route_contains", expected=_steps(expect.route_contains), actual=_steps(route))


def _steps(route: Sequence[str]) -> str:
    return shorten(" → ".join(route) or "no step", 2 * VALUE_CHARS_MAX)


def _of_values(expect: Expectation, replayed: ReplayedExecution) -> Iterator[Mismatch]:
    if expect.output is not UNSET:
        yield from differing("output", expect.output, replayed.output)
    if expect.output_equals is not UNSET:
        yield from differing("output", expect.output_equals, replayed.output, whole=True)
    if expect.ctx is not None:
        yield from differing("ctx", expect.ctx, replayed.ctx)


def _of_counts(expect: Expectation, replayed: ReplayedExecution, adapter: ReplayAdapter) -> Iterator[Mismatch]:
    for name, number in expect.calls.items():
        made = sum(each.call.fits(name) for each in adapter.calls)
        if made != number:
            yield Mismatch(what=f"calls of {name}", expected=f"{number:,}", actual=f"{made:,}")
    if not expect.retries:
        return
    # The log knows a frame; the calls that were made know the step of a frame.
    steps = {(each.call.execution_id, each.call.frame): each.call for each in adapter.calls}
    for name, number in expect.retries.items():
        made = 0
        for event in replayed.events:
            if isinstance(event.fact, TaskDone):
                call = steps.get((event.execution_id, event.fact.frame))
                if call is not None and name in (call.step, f"{call.step}.{event.fact.task}"):
                    made += event.fact.repeats
        if made != number:
            yield Mismatch(what=f"retries of {name}", expected=f"{number:,}", actual=f"{made:,}")


def _of_duration(expect: Expectation, replayed: ReplayedExecution) -> Iterator[Mismatch]:
    seconds = replayed.duration_s
    if expect.min_s is not None and seconds < expect.min_s:
        yield Mismatch(what="duration_s", expected=f"at least {expect.min_s:g}", actual=f"{seconds:g}")
    if expect.max_s is not None and seconds > expect.max_s:
        yield Mismatch(what="duration_s", expected=f"at most {expect.max_s:g}", actual=f"{seconds:g}")


def differing(where: str, expected: JSON, actual: JSON, *, whole: bool = False) -> list[Mismatch]:
    """Where the value differs. Without `whole` a mapping may have more keys than expected."""
    found: list[Mismatch] = []
    for each in _differing(where, expected, actual, whole=whole):
        found.append(each)
        if len(found) == DIFFERENCES_MAX:
            break
    return found


def _differing(where: str, expected: JSON, actual: JSON, *, whole: bool) -> Iterator[Mismatch]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            if key not in actual:
                keys = shorten(", ".join(actual) or "none", VALUE_CHARS_MAX)
                yield Mismatch(what=f"{where}.{key}", expected=shown(value), actual=f"no such key; the keys are {keys}")
            else:
                yield from _differing(f"{where}.{key}", value, actual[key], whole=whole)
        for key in actual.keys() - expected.keys() if whole else ():
            yield Mismatch(what=f"{where}.{key}", expected="no such key", actual=shown(actual[key]))
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            items = f"{len(expected):,} items: {shown(expected)}", f"{len(actual):,} items: {shown(actual)}"
            yield Mismatch(what=where, expected=items[0], actual=items[1])
            return
        for place, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from _differing(f"{where}[{place}]", one, other, whole=whole)
    elif isinstance(expected, bool) != isinstance(actual, bool) or expected != actual:
        yield Mismatch(what=where, expected=shown(expected), actual=shown(actual))


def shown(value: JSON) -> str:
    """A value as short JSON."""
    return shorten(msgspec.json.encode(value).decode(), VALUE_CHARS_MAX)
