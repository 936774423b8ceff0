"""The in-memory runtime of noetl.runtime, under the name that tests import."""

from __future__ import annotations

from noetl.runtime.memory import (
    CommittedEvent,
    MemoryPrograms,
    MemoryRuntime,
    RunResult,
    RuntimeParts,
    ToolFunction,
    runtime,
)

__all__ = [
    "CommittedEvent", "MemoryPrograms", "MemoryRuntime", "RunResult", "RuntimeParts", "ToolFunction", "runtime",
]  # fmt: skip
