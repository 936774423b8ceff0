"""The three functions that a template may call; the clock and the dice are the caller's Moment (D17)."""

from __future__ import annotations

import hashlib

from noetl.template.builtins import Table, offer
from noetl.template.limits import RANGE_MAX, Meter, over
from noetl.template.values import Moment, TemplateError

FUNCTIONS: Table = {}


@offer(
    FUNCTIONS,
    "range(start: int, stop: int? = null, step: int = 1)",
    "The whole numbers from `start` up to `stop`, without it; from 0 if there is one argument",
    ("{{ range(1, 4) }}", "[1,2,3]"),
)
def numbers(meter: Meter, start: int, stop: int | None, step: int) -> list[int]:
    if step == 0:
        raise TemplateError("range needs a step other than 0")
    wanted = range(0, start, step) if stop is None else range(start, stop, step)
    # The length of a range may not fit into what len() gives, so its last place is asked for instead.
    if wanted[RANGE_MAX : RANGE_MAX + 1]:
        raise over(
            "RANGE_MAX",
            RANGE_MAX,
            "range gives too many numbers: more items come as a list in workload, or from a task as a Ref",
        )
    meter.items(len(wanted))
    meter.hold(32 * len(wanted))
    return list(wanted)


@offer(
    FUNCTIONS,
    "now()",
    "The recorded time of the event, as text",
    ("{{ now() }}", '"2026-01-31T12:00:00Z"'),
)
def now(meter: Meter) -> str:
    return _moment(meter, "now()").at


@offer(
    FUNCTIONS,
    "uuid()",
    "A UUID derived from the call's id; each one in a template is another",
    ("{{ uuid() }}", '"9d15a7b6-aefe-8d03-90e1-bf48ff4bebb4"'),
)
def uuid(meter: Meter) -> str:
    seed = _moment(meter, "uuid()").seed
    meter.charge(60 + (len(seed) >> 3))
    digest = hashlib.sha256(f"{seed}/{meter.drawn}".encode()).hexdigest()
    meter.drawn += 1
    # Version 8 and its variant: a UUID that someone derived in a way of their own.
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def _moment(meter: Meter, call: str) -> Moment:
    if meter.moment is None:
        raise TemplateError(f"{call} has no value here: nothing is recorded at this place")
    return meter.moment
