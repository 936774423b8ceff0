"""`python`: code of the author's own, run in a child process with limits."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.playbook.kinds import Fixed, Raw
from noetl.tool import Tool


class PythonInput(Struct, kw_only=True):
    """A script, or a function `main`."""

    code: Annotated[
        Raw | None,
        Meta(description="`def main(...)`, called with `input`, or a script that sets `result`; no template"),
    ] = None
    script: Annotated[Fixed | None, Meta(description="a file with the code, relative to the playbook")] = None
    libs: Annotated[list[str] | None, Meta(description="packages that the code imports")] = None


class PythonSpec(Struct, kw_only=True):
    """Limits of the child process."""

    memory_mb: Annotated[int, Meta(ge=16, description="memory of the child")] = 512


class Python(Tool):
    """Runs Python code with `input` as its arguments; `output.data` is what it returns."""

    kind = "python"
    Input = PythonInput
    Spec = PythonSpec
    free_input = True
    one_of = (("code", "script"),)
    defaults = {"timeout": 300, "memory_mb": 512}
    output = "py"
