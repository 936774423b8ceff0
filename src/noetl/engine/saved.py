"""Values that outlive an execution: `saved.*`, kept for the path of a playbook.

The step that sets one records it in `next.evaluated`; the store writes it with the same commit.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.engine.facts import Fact, NextEvaluated
from noetl.engine.scopes import has_ref
from noetl.engine.stored import stored_bytes
from noetl.net.program import SAVED
from noetl.output import JSON, Failure
from noetl.playbook.model import INLINE_BYTES_MAX

_encoded = msgspec.json.Encoder().encode


def saved_misfit(target: str, value: JSON) -> Failure | None:
    """Why the value cannot outlive its execution; None: it can."""
    if stored_bytes(value):
        size = len(_encoded(value))
        words = f"has {size:,} bytes" if size > INLINE_BYTES_MAX else "is in the result store, because it is large"
        message = f'"{target}" {words}, and a saved value has at most {INLINE_BYTES_MAX:,}: save less'
        return Failure(kind="payload-too-large", message=message)
    if has_ref(value):
        message = f'"{target}" contains a Ref, and its result belongs to one execution: save the values that you need'
        return Failure(kind="reference", message=message)
    return None


def saved_in(facts: Iterable[Fact]) -> Iterable[tuple[str, JSON]]:
    """The names and values that these facts save, in order."""
    for fact in facts:
        if isinstance(fact, NextEvaluated):
            for target, value in fact.set.items():
                if target.startswith(f"{SAVED}."):
                    yield target[len(SAVED) + 1 :], value
