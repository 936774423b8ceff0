"""`workbook`: calls a named block of the same playbook, in a scope of its own."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.playbook.kinds import Fixed
from noetl.tool import Tool


class WorkbookInput(Struct, kw_only=True):
    """The block to call."""

    block: Annotated[Fixed, Meta(description="name of a block under `workbook`")]


class WorkbookTool(Tool):
    """Calls a block under `workbook` of this playbook, with its own `input`, steps and task names (D59)."""

    kind = "workbook"
    ignores = ("auth", "timeout", "retry")
    Input = WorkbookInput
    free_input = True
    example = """\
kind: workbook
block: notify
input: {text: done}
"""
