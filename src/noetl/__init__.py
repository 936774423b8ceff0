"""NoETL runs playbooks: YAML documents that orchestrate APIs, databases and scripts.

`run` and `check` work at once, `connect` opens a Session on a database file or a server. Names are loaded
when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it; importing typing would cost every start of the command

if TYPE_CHECKING:
    from noetl.errors import Problem
    from noetl.output import Failure, Output
    from noetl.session.api import check, connect, run
    from noetl.session.execution import Result
    from noetl.session.protocol import Session
    from noetl.tool import Call, Tool

__version__ = "0.2.0.dev0"
__all__ = [
    "Call", "Failure", "Output", "Problem", "Result", "Session", "Tool", "__version__", "check", "connect", "run",
]  # fmt: skip

_MODULES = {
    "Call": "noetl.tool",
    "Failure": "noetl.output",
    "Output": "noetl.output",
    "Problem": "noetl.errors",
    "Result": "noetl.session.execution",
    "Session": "noetl.session.protocol",
    "Tool": "noetl.tool",
    "check": "noetl.session.api",
    "connect": "noetl.session.api",
    "run": "noetl.session.api",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
