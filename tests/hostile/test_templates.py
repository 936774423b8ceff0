"""Hostile templates in real places (test 19): in the check, in guards of control, in fields of a worker, in data."""

from __future__ import annotations

import json
from functools import cache

import msgspec
import pytest

from noetl.engine import facts
from noetl.errors import Problem
from tests.playbooks import checked
from tests.simulation.test_acceptance import run
from tests.unit.net import test_template_hostile as hostile

EXPRESSIONS = [*hostile.ATTRIBUTES, *hostile.CALLS, *hostile.UNKNOWN, *hostile.EXHAUSTION]
CHARS_MAX = 2_000  # longer ones are refused everywhere because of their length
PAYLOADS = [
    payload
    for payload in (
        *("{{ " + words + " }}" for words in EXPRESSIONS),
        *hostile.UNREADABLE, *hostile.STATEMENTS, *hostile.LOOPS,
    )
    if len(payload) <= CHARS_MAX and "\x00" not in payload
]  # fmt: skip
# The values that the payloads read, as large as an event allows.
WORKLOAD: dict[str, object] = {
    "a": 1,
    "s": "x",
    "text": "a" * 10_000,
    "words": [f"word {number}" for number in range(200)],
    "numbers": list(range(1_000)),
    "rows": [{"id": number, "name": "n", "deep": {"er": [number]}} for number in range(100)],
    "lists": [[number] for number in range(200)],
    "map": {f"k{number}": number for number in range(200)},
    "second": hostile.SCOPE["second"],
    "evil": hostile.SCOPE["evil"],
}
NAMES = ", ".join(f"{name}: null" for name in WORKLOAD)
# The name `numbers` of a payload is `workload.numbers` here.
GUARD = """\
workload: {NAMES}
workflow:
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: there, when: PAYLOAD}, {step: here}]}
- {step: there, tool: {kind: noop, input: {at: there}}}
- {step: here, tool: {kind: noop, input: {at: here}}}
"""
FIELD = """\
workload: {NAMES}
workflow:
- step: start
  tool: {kind: noop, input: {field: PAYLOAD}}
"""


def in_place(place: str, payload: str) -> str:
    for name in WORKLOAD:
        for before in ("{{ ", "in ", "(", "[", "~ "):
            for after in (" ", ".", "|", "[", ")", "]"):
                payload = payload.replace(f"{before}{name}{after}", f"{before}workload.{name}{after}")
    return place.replace("NAMES", NAMES).replace("PAYLOAD", json.dumps(payload))


@cache
def refusals(place: str) -> dict[str, tuple[Problem, ...]]:
    return {payload: checked(in_place(place, payload)).errors for payload in PAYLOADS}


@pytest.mark.parametrize("place", [GUARD, FIELD], ids=["guard", "field"])
def test_every_payload_is_checked_and_every_refusal_has_a_place(place: str) -> None:
    refused = refusals(place)
    assert len(refused) >= 150
    assert sum(bool(found) for found in refused.values()) >= 120
    for payload, found in refused.items():
        assert all(each.at.line > 3 for each in found), payload[:80]


@pytest.mark.parametrize("place", [GUARD, FIELD], ids=["guard", "field"])
def test_an_execution_with_an_accepted_payload_ends_with_plain_values_only(place: str) -> None:
    passing = [payload for payload, found in refusals(place).items() if not found]
    assert len(passing) >= 30
    for payload in passing:
        _, state, log = run(in_place(place, payload), dict(WORKLOAD))
        assert state.status in ("ok", "error"), payload[:80]
        written = msgspec.json.encode(log).decode()  # only plain values can be encoded
        assert "<built-in" not in written, payload[:80]
        assert " object at 0x" not in written, payload[:80]


def test_data_is_never_rendered_again() -> None:
    """Untrusted data passes through a field, ctx, a guard and an arc payload without a change."""
    body = """\
workload: {texts: []}
workflow:
- step: start
  loop: {in: "{{ workload.texts }}", iterator: text}
  tool: {kind: noop, input: {text: "{{ iter.text }}", more: "<{{ iter.text }}>"}}
  set: {ctx.seen: "{{ output.data }}"}
  next: {arcs: [{step: after, when: "{{ ctx.seen | length > 0 }}", set: {ctx.first: "{{ ctx.seen[0].text }}"}}]}
- {step: after, tool: {kind: noop, input: {first: "{{ ctx.first }}"}}}
"""
    texts = [payload for payload in PAYLOADS if len(payload) < 200 and payload.isprintable()]
    assert len(texts) >= 150
    for start in range(0, len(texts), 20):
        some = texts[start : start + 20]
        _, state, log = run(body, {"texts": some})
        assert state.status == "ok", state.failure
        assert [each["text"] for each in state.ctx["seen"]] == some
        assert [each["more"] for each in state.ctx["seen"]] == [f"<{text}>" for text in some]
        assert state.ctx["first"] == some[0]
        assert any(isinstance(fact, facts.NextEvaluated) and fact.set for fact in log)
