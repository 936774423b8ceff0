"""`playbook`: runs another playbook as a child execution and waits for its output."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.tool import Tool


class PlaybookInput(Struct, kw_only=True):
    """The playbook to run."""

    path: Annotated[str, Meta(description="path of the playbook in the catalog, or a file relative to this playbook")]
    version: Annotated[int | str | None, Meta(description="version in the catalog; default: the latest one")] = None


class PlaybookTool(Tool):
    """Runs another playbook as a child execution and returns its output. `input` is its workload (D58)."""

    kind = "playbook"
    ignores = ("auth", "timeout", "retry")
    Input = PlaybookInput
    free_input = True
    example = """\
kind: playbook
path: examples/hello
input: {name: you}
"""
