"""`spec.sandbox` of the tools that run programs: which files a program may write, and whether it has a network."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from noetl.playbook.kinds import Sandbox
from noetl.tools.errors import ToolError
from noetl.tools.paths import absolute_path


class SandboxFailed(ToolError):
    """The worker cannot apply the sandbox, so the program was not started."""

    kind = "sandbox"


class Restrictions(NamedTuple):
    """What a program may do, with absolute paths."""

    writable: tuple[str, ...]
    network: bool


def restrictions(sandbox: Sandbox | None, folder: str | None) -> Restrictions | None:
    """None: the program is not restricted. Raises InvalidInput, or SandboxFailed for a path that does not exist."""
    if sandbox is None:
        return None
    paths = [absolute_path("`spec.sandbox.writable`", each, folder) for each in sandbox.writable]
    for path in paths:
        if not Path(path).exists():
            raise SandboxFailed(f'`spec.sandbox.writable` "{path}" does not exist on this worker; create it first')
    return Restrictions(tuple(map(str, paths)), sandbox.network)
