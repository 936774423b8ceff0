"""Large outputs: which part goes into the log, and what a frame must fetch before it continues (D51, D52).

The tasks of a frame see the whole data. The log holds a Ref, and the values that routing reads from the last
output.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from noetl.engine.facts import TaskDone
from noetl.engine.moves import FramePlace, Work
from noetl.engine.scopes import is_foreign
from noetl.engine.state import Frame
from noetl.net.program import ProjectedValue
from noetl.output import JSON, Output
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.template.projection import evaluate_parts

_encoded = msgspec.json.Encoder().encode


def recorded(
    work: Work, fact: TaskDone, inline_max: int = INLINE_BYTES_MAX, *, is_large: bool | None = None
) -> TaskDone:
    """The fact as it is recorded. Call it before the frame advances; stored data has its ref by then.

    `is_large`: whether its data has more than `inline_max` bytes; None: it is not known.
    """
    output = fact.output
    if output is not None and output.ref is not None and is_large is None:
        is_large = len(_encoded(output.data)) > inline_max
    if output is not None and output.ref is not None and is_large:
        picked = pick(work, output, failed=fact.directive == "fail") if fact.next < 0 else None
        return replace(fact, output=trim(output, output.ref), picked=picked)
    last = work.frame.last
    if output is None and fact.next < 0 and last is not None and last.ref is not None:
        return replace(fact, picked=pick(work, last))  # The later tasks were skipped.
    return fact


def trim(output: Output, ref: dict[str, JSON]) -> Output:
    """The output without its data, which is at `ref`."""
    return replace(output, data=None, ref=ref)


def pick(work: Work, output: Output, *, failed: bool = False) -> dict[str, JSON] | None:
    """What step `set` and arcs read from the data, part by part; None: nothing, or the frame is in a loop.

    A part that cannot be evaluated is recorded as an error, which counts when control reads it.
    """
    pipeline, place = work.pipeline, work.place
    values = pipeline.failure_picks if failed else pipeline.picks
    if not values or pipeline.loop is not None:
        return None
    return _picked(values, place, output.data)


def pick_results(work: Work, data: list[JSON]) -> dict[str, JSON]:
    """The same for the results of a loop, for both ways in which it can end."""
    pipeline = work.pipeline
    return _picked((*pipeline.picks, *pipeline.failure_picks), work.place, data)


def _picked(values: tuple[ProjectedValue, ...], place: FramePlace, data: JSON) -> dict[str, JSON]:
    scope = {
        "output": {"data": data},
        "workload": place.workload,
        "saved": place.saved,
        "input": place.input,
        "execution_id": place.execution_id,
    }
    parts = {part.key: part for each in values for part in each.value.projected(truth_only=each.asks).parts}
    return dict(evaluate_parts(parts.values(), scope))


def absent(frame: Frame) -> dict[str, dict[str, JSON]]:
    """The stored data that the frame's tasks need and that is not in the frame: slot → Ref."""
    seen = {"answer": frame.answer, "last": frame.last}
    found = {
        slot: output.ref
        for slot, output in seen.items()
        if output is not None and output.ref is not None and output.data is None and not is_foreign(output.ref)
    }
    for task, view in frame.outputs.items():
        if "ref" in view and view["data"] is None and not is_foreign(view["ref"]):
            found[f"task {task}"] = view["ref"]
    return found


def restore(frame: Frame, bodies: Mapping[str, JSON]) -> None:
    """Put fetched data into its slots."""
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
