"""The state of retries: what is kept from a failed run, and how a new run continues it.

Only failed parts are kept: frames at the failed task, and ranges of loop iterations (D69).
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from noetl.engine.facts import ForBlock
from noetl.engine.scopes import patched
from noetl.engine.state import Frame, LoopState, Run, State
from noetl.ids import block_run_id, frame_id
from noetl.output import JSON, Failure

_encoded = msgspec.json.Encoder().encode


def set_aside(frame: Frame) -> Frame:
    """The frame, ready for a retry: at the task that failed or was not done."""
    failed = frame.failed_at is not None
    return Frame(
        id=frame.id, index=frame.index, step=frame.step, iter=frame.iter, entries=frame.entries,
        pc=frame.pc if frame.failed_at is None else frame.failed_at,
        prev=frame.prev, outputs=frame.outputs, written=frame.written, block=frame.block,
        last=frame.before if failed else frame.last, picked=None if failed else frame.picked,
    )  # fmt: skip


def keep(state: State, run: Run, failure: Failure | None) -> Run:
    """The part of an ended run that a retry needs."""
    give_up_blocks(state, run)
    loop = run.loop
    frames = {index: set_aside(frame) for index, frame in run.frames.items()}
    if loop is not None:
        loop = replace(loop, lost={**loop.lost, **frames}, again=gaps(loop), flying={}, unended=len(loop.flying))
        frames = {}
    return Run(
        id=run.id, step=run.step, block=run.block, input=run.input, values=run.values, frames=frames,
        loop=loop, failure=failure, compensates=run.compensates, undone=run.undone,
    )  # fmt: skip


def gaps(loop: LoopState) -> list[tuple[int, int]]:
    """The iterations that were scheduled and did not succeed, as ranges, the lowest last."""
    found: list[tuple[int, int]] = []
    end = 0
    for begins in sorted(loop.pieces):
        if begins > end:
            found.append((end, begins))
        end = loop.pieces[begins].end
    if loop.frontier > end:
        found.append((end, loop.frontier))
    return found[::-1]


def give_up_blocks(state: State, run: Run) -> None:
    """Runs of blocks that its frames have called end with it, without an answer to their callers."""
    for frame in run.frames.values():
        child = state.runs.get(called(frame) or "")
        if child is not None:
            del state.runs[child.id]
            state.ended.pop(child.id, None)
            frame.block = keep(state, child, None)


def called(frame: Frame) -> str | None:
    """The run of the block that a frame waits for; None: it waits for none."""
    if not isinstance(frame.parked, ForBlock):
        return None
    block = frame.parked.block
    return block_run_id(frame.id, block.rpartition("/")[2], frame.blocks.get(block, 0))


def take_up(run: Run, old: Run, *, from_start: bool, named: tuple[int, ...] = ()) -> None:
    """A new run continues where an old one failed. It inherits what succeeded.

    `named`: only these iterations run; the others that failed stay failed (`_named_only`).
    """
    run.retry_of = old.id
    loop = old.loop
    if loop is None or loop.conflict is not None:
        frame = old.frames.get(None)
        if frame is not None and not from_start:
            run.values = frame.step
            run.frames[None] = taken_up(run, None, frame)
        return
    run.values = old.values
    run.loop = replace(
        loop,
        failed=0,
        error=None,
        error_at=None,
        failures=None if loop.failures is None else {},
        failures_bytes=0,
        failures_end=None,
        stopped=False,
        again=list(loop.again),
        named=False,
        unended=0,
        lost={} if from_start else dict(loop.lost),
    )
    if named:
        run.loop = _named_only(run.loop, loop, set(named))


def _named_only(new: LoopState, old: LoopState, named: set[int]) -> LoopState:
    keeps_error = old.error_at is not None and old.error_at not in named
    failures = None if old.failures is None else {at: each for at, each in old.failures.items() if at not in named}
    return replace(
        new,
        named=True,
        failed=sum(end - first for first, end in old.again) - len(named),
        again=[(index, index + 1) for index in sorted(named, reverse=True)],
        error=old.error if keeps_error else None,
        error_at=old.error_at if keeps_error else None,
        failures=failures,
        failures_bytes=sum(entry_bytes(each) for each in (failures or {}).values()),
        failures_end=old.failures_end,
        lost={**{at: frame for at, frame in old.lost.items() if at not in named}, **new.lost},
    )


def entry_bytes(entry: JSON) -> int:
    """The size of an entry of `output.failed` in the log."""
    return len(_encoded(entry)) + 1


def taken_up(run: Run, index: int | None, frame: Frame) -> Frame:
    """ctx as of now, with the writes of the parallel iteration itself."""
    return replace(frame, id=frame_id(run.id, index), ctx=patched(run.ctx, frame.written))
