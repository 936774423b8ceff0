"""What control's own templates see: step `set`, arcs, block `set`, loop items."""

from __future__ import annotations

from datetime import datetime, timedelta

from noetl.engine.state import Run, State
from noetl.net.program import CompiledPipeline
from noetl.output import JSON
from noetl.template.compile import Moment


def base_scope(state: State, run: Run) -> dict[str, JSON]:
    """ctx is that of the moment (D74)."""
    return {
        "workload": state.workload,
        "ctx": state.ctx,
        "execution_id": state.execution_id,
        "input": run.input,
        "step": run.values,
    }


def moment(at: datetime, seed: str) -> Moment:
    """What now() and uuid() are derived from (D17)."""
    return Moment(at.isoformat().replace("+00:00", "Z"), seed)


def deadline(pipeline: CompiledPipeline, at: datetime) -> datetime | None:
    """When a run must have ended whose token is made now (D33)."""
    return None if pipeline.deadline_s is None else at + timedelta(seconds=pipeline.deadline_s)
