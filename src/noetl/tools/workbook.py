"""`workbook`: a call of a named block of this playbook, as a boundary of its own."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.playbook.kinds import Fixed
from noetl.tool import Tool


class WorkbookInput(Struct, kw_only=True):
    """Which block."""

    block: Annotated[Fixed, Meta(description="a block under `workbook`")]


class WorkbookTool(Tool):
    """Calls a block of this playbook's `workbook`, with its own `input`, `step` and task names (D59)."""

    kind = "workbook"
    Input = WorkbookInput
    free_input = True
    example = """\
kind: workbook
block: notify
input: {text: done}
"""
