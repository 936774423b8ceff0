"""`shell`: a program with its arguments, or a line for the shell."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.output import JSON
from noetl.tool import Tool


class ShellInput(Struct, kw_only=True):
    """A program, or a line for the shell."""

    argv: Annotated[list[str] | None, Meta(description="program and arguments; no shell reads them")] = None
    sh: Annotated[str | None, Meta(description="text for /bin/sh")] = None
    env: Annotated[
        dict[str, JSON] | None, Meta(description="environment variables; nothing else is inherited")
    ] = None
    cwd: Annotated[str | None, Meta(description="the folder to run in")] = None
    stdin: Annotated[str | None, Meta(description="text for standard input")] = None


class Shell(Tool):
    """Runs a program; an exit code other than 0 is an error."""

    kind = "shell"
    Input = ShellInput
    one_of = (("argv", "sh"),)
    defaults = {"timeout": 300}
    output = "shell"
