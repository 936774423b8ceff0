"""Large outputs: what of one goes into the log, and what a frame must fetch before it goes on (D51, D52).

The tasks of a frame see data whole. The log holds a Ref, and of the last output the parts that routing reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from noetl.engine.facts import TaskDone
from noetl.engine.pipeline import Work
from noetl.engine.state import Frame
from noetl.net.template import Path
from noetl.output import JSON, Output

INLINE_BYTES_MAX = 65_536  # of data that stands in a fact, unless spec.result says otherwise (D51)
PICKED_BYTES_MAX = 65_536  # of what routing reads of data that does not
WHOLE = ""  # in `picked`: data, with nothing in it but what routing reads
TOO_LARGE = "too-large"  # in `picked`: why routing can not read what it needs
_Wanted: TypeAlias = "dict[str | int, _Wanted] | None"  # None: all that is here
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
    """What step `set` and arcs read of the data; None: nothing, or a loop is around it."""
    paths = work.pipeline.failure_picks if failed else work.pipeline.picks
    if not paths or work.pipeline.loop is not None:
        return None
    part = _cut(output.data, _tree(paths))
    size = len(_encoded(part))
    if size <= PICKED_BYTES_MAX:
        return {WHOLE: part}
    read = ", ".join(sorted(".".join(map(str, ("output", "data", *path))) for path in paths))
    message = (
        f'`set` and arcs of "{work.pipeline.name}" read {read}: {size:,} bytes, and the limit is '
        f"{PICKED_BYTES_MAX:,}; read a part of it, `set` what you need in the task, or `resolve` output.ref"
    )
    return {TOO_LARGE: message}


def _tree(paths: Iterable[Path]) -> _Wanted:
    tree: dict[str | int, _Wanted] = {}
    for path in sorted(paths, key=len):
        if not path:
            return None
        inner = tree
        for key in path[:-1]:
            below = inner.setdefault(key, {})
            if below is None:
                break
            inner = below
        else:
            inner[path[-1]] = None
    return tree


def _cut(value: JSON, wanted: _Wanted) -> JSON:
    """The value with nothing in it but what is wanted; what is missing stays missing.

    Lists and texts keep the places that are asked for, counted from whichever end: the middle goes.
    """
    if wanted is None:
        return value
    if type(value) is dict:
        return {key: _cut(value[key], inner) for key, inner in wanted.items() if key in value}
    if type(value) is not list and type(value) is not str:
        return value
    places = [key for key in wanted if type(key) is int]
    head = max((place + 1 for place in places if place >= 0), default=0)
    tail = max((-place for place in places if place < 0), default=0)
    count = len(value)
    if isinstance(value, str):
        return value if head + tail >= count else value[:head] + value[count - tail :]
    kept = range(count) if head + tail >= count else [*range(head), *range(count - tail, count)]
    return [_cut_item(value, place, wanted) for place in kept]


def _cut_item(value: list[JSON], place: int, wanted: dict[str | int, _Wanted]) -> JSON:
    """An item may be asked for by its place from the start, by that from the end, or by both."""
    asked = [wanted[key] for key in (place, place - len(value)) if key in wanted]
    if not asked:
        return None
    return _cut(value[place], _both(asked[0], asked[-1]))


def _both(one: _Wanted, other: _Wanted) -> _Wanted:
    if one is None or other is None:
        return None
    return {**one, **{key: _both(one.get(key, {}), inner) for key, inner in other.items()}}


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
