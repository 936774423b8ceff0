"""An independent look at a log: what must hold whatever happened on the way. It reads nothing but the log."""

from __future__ import annotations

from noetl.engine import apply
from noetl.engine import facts as f
from noetl.engine.state import State
from noetl.ids import frame_parts
from noetl.ports import Row


def audit(execution_id: str, rows: list[Row]) -> State:
    """Fold the log, and raise AssertionError in words for what it breaks."""
    state = State(execution_id=execution_id)
    ended: set[str] = set()
    scheduled: set[str] = set()
    epochs: dict[str, tuple[int, int]] = {}
    for row in rows:
        assert row.first_seq == state.seq + 1, f"{execution_id}: a gap before {row.first_seq}"
        for fact in row.facts:
            assert state.live or isinstance(fact, f.Processed | f.Retried), (
                f"{execution_id}: {fact} after the end"
            )
            match fact:
                case f.StepScheduled(run=run):
                    assert run not in scheduled, f"{run} was scheduled twice"
                    scheduled.add(run)
                case f.StepDone(run=run) | f.LoopDone(run=run):
                    assert run not in ended, f"{run} ended twice"
                    ended.add(run)
                case f.StepFailed(run=str(run)):
                    assert run not in ended, f"{run} ended twice"
                    ended.add(run)
                case f.TaskDone():
                    _check_call(state, fact, epochs)
            apply(state, fact, row.at)
    if not state.live and state.status != "cancelled":
        assert scheduled == ended or state.failure, f"{execution_id}: {sorted(scheduled - ended)} never ended"
    return state


def _check_call(state: State, fact: f.TaskDone, epochs: dict[str, tuple[int, int]]) -> None:
    owner, index = frame_parts(fact.frame)
    run = state.runs.get(owner)
    assert run is not None, f"{fact.frame} reports, and its run is over"
    frame = run.frames.get(index)
    position = frame.calls if frame else 0
    assert fact.call == position + 1, f"{fact.frame}: call {fact.call} after {position}"
    if run.loop is not None:
        assert len(run.loop.flying) <= run.loop.width, f"{owner}: more than max_in_flight"
        assert index in run.loop.flying, f"{fact.frame} reports, and its iteration is over"
    if fact.epoch is not None:
        assert fact.epoch >= epochs.get(fact.frame, (0, 0)), f"{fact.frame}: a stale epoch was accepted"
        epochs[fact.frame] = fact.epoch
