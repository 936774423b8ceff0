"""`playbook`: runs another playbook as a child execution and waits for its output."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.tool import Tool


class PlaybookInput(Struct, kw_only=True):
    """Which playbook."""

    path: Annotated[str, Meta(description="its path in the catalog, or a file relative to this playbook")]
    version: Annotated[int | str | None, Meta(description="which version; the latest without it")] = None


class PlaybookTool(Tool):
    """Runs another playbook as a child with `input` as its workload; the output is the child's (D58)."""

    kind = "playbook"
    Input = PlaybookInput
    free_input = True
    example = """\
kind: playbook
path: examples/hello
input: {name: you}
"""
