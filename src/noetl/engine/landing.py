"""The window of a loop, and how the writes of its iterations are folded: the loops' part of `apply`."""

from __future__ import annotations

from noetl.engine.reduce import fold, start
from noetl.engine.state import Loop
from noetl.output import JSON, Failure


def fly(loop: Loop) -> None:
    """The next iteration is handed out: the lowest that is not, as long as there is room (D49)."""
    if not loop.stopped and loop.frontier < loop.count:
        loop.flying[loop.frontier] = None
        loop.frontier += 1


def fold_in(loop: Loop, index: int, writes: dict[str, JSON]) -> None:
    """Writes are folded in the order of the iterations, whatever the order in which they end."""
    loop.unfolded[index] = writes
    while loop.folded_to in loop.unfolded:
        for path, value in loop.unfolded.pop(loop.folded_to).items():
            _fold_one(loop, path, value)
        loop.folded_to += 1


def _fold_one(loop: Loop, path: str, value: JSON) -> None:
    reducer = loop.reduce.get(path)
    if reducer is None:
        if path in loop.folded and loop.folded[path] != value and loop.conflict is None:
            message = f'iterations write different values to "ctx.{path}" and no reducer folds them'
            loop.conflict = Failure(kind="ctx-conflict", message=message)
        loop.folded.setdefault(path, value)
        return
    so_far = loop.folded[path] if path in loop.folded else start(reducer, loop.start, path)
    try:
        loop.folded[path] = fold(reducer, so_far, value)
    except ValueError as error:
        message = f'reducer "{reducer}" of "ctx.{path}": {error}'
        loop.conflict = loop.conflict or Failure(kind="ctx-conflict", message=message)
