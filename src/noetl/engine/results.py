"""Large outputs: what of one goes into the log, and what a frame must fetch before it goes on (D51, D52).

The tasks of a frame see data whole. The log holds a Ref, and what routing makes of the last output.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from noetl.engine.facts import TaskDone
from noetl.engine.moves import FramePlace, Work
from noetl.engine.state import Frame
from noetl.net.program import ProjectedValue
from noetl.output import JSON, Output
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.template.projection import error_entry, evaluate_parts

PICKED_BYTES_MAX = 65_536  # of one part that routing reads of data that does not
PICKED_BYTES_MAX_IN_ALL = 1_048_576  # of all of them: as much as ctx may hold (D55)
_encoded = msgspec.json.Encoder().encode


def recorded(work: Work, fact: TaskDone, inline_max: int = INLINE_BYTES_MAX) -> TaskDone:
    """The fact as it goes on record, asked before the frame moves on. What is stored has its ref by now."""
    output = fact.output
    if output is not None and output.ref is not None and len(_encoded(output.data)) > inline_max:
        picked = pick(work, output, failed=fact.directive == "fail") if fact.next < 0 else None
        return replace(fact, output=trim(output, output.ref), picked=picked)
    last = work.frame.last
    if output is None and fact.next < 0 and last is not None and last.ref is not None:
        return replace(fact, picked=pick(work, last))  # The tasks behind it were skipped.
    return fact


def trim(output: Output, ref: dict[str, JSON]) -> Output:
    """The output without its data, which lies there."""
    return replace(output, data=None, ref=ref)


def pick(work: Work, output: Output, *, failed: bool = False) -> dict[str, JSON] | None:
    """What step `set` and arcs make of the data, part by part; None: they read none, or a loop is around it.

    A part that can not be evaluated, or is too large, is on record as that: it counts when control reads it.
    """
    pipeline, _, place = work
    values = pipeline.failure_picks if failed else pipeline.picks
    if not values or pipeline.loop is not None:
        return None
    return _picked(values, place, output.data)


def pick_results(work: Work, data: list[JSON]) -> dict[str, JSON]:
    """The same of the results of a loop, whichever way it ends."""
    pipeline = work.pipeline
    return _picked((*pipeline.picks, *pipeline.failure_picks), work.place, data)


def _picked(values: tuple[ProjectedValue, ...], place: FramePlace, data: JSON) -> dict[str, JSON]:
    scope = {
        "output": {"data": data},
        "workload": place.workload,
        "input": place.input,
        "execution_id": place.execution_id,
    }
    picked: dict[str, JSON] = {}
    total = 0
    for each in values:
        parts = [part for part in each.value.projected(truth_only=each.asks).parts if part.key not in picked]
        for key, entry in evaluate_parts(parts, scope):
            size = _size(entry)
            if size > PICKED_BYTES_MAX or total + size > PICKED_BYTES_MAX_IN_ALL:
                entry, size = _too_large(size), 0
            picked[key] = entry
            total += size
    return picked


def _size(entry: dict[str, JSON]) -> int:
    value = entry.get("is")
    return len(_encoded(value)) if isinstance(value, str | list | dict) else 0


def _too_large(size: int) -> dict[str, JSON]:
    message = (
        f"it takes {size:,} bytes of output.data, and the limit is {PICKED_BYTES_MAX:,}, and "
        f"{PICKED_BYTES_MAX_IN_ALL:,} in all; read a part of it, `set` what you need in the task, or "
        "`resolve` output.ref"
    )
    return error_entry("payload-too-large", message)


def absent(frame: Frame) -> dict[str, dict[str, JSON]]:
    """Where the data lies that the frame's tasks are to see whole and that is not here: slot → Ref."""
    seen = {"answer": frame.answer, "last": frame.last}
    found = {
        slot: output.ref
        for slot, output in seen.items()
        if output is not None and output.ref is not None and output.data is None
    }
    for task, view in frame.outputs.items():
        if "ref" in view and view["data"] is None:
            found[f"task {task}"] = view["ref"]
    return found


def restore(frame: Frame, bodies: Mapping[str, JSON]) -> None:
    """Put what was fetched into its slots."""
    for slot, data in bodies.items():
        if slot == "answer":
            assert frame.answer is not None
            frame.answer = replace(frame.answer, data=data)
        elif slot == "last":
            assert frame.last is not None
            frame.last = replace(frame.last, data=data)
            frame.prev = data
        else:
            task = slot.removeprefix("task ")
            frame.outputs = {**frame.outputs, task: {**frame.outputs[task], "data": data}}
