"""`playbook`: runs another playbook as a child execution and waits for its output."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from noetl.tool import Tool


class PlaybookInput(Struct, kw_only=True):
    """The playbook to run."""

    path: Annotated[
        str | None, Meta(description="path of the playbook in the catalog, or a file relative to this playbook")
    ] = None
    document: Annotated[
        dict[str, Any] | str | None,
        Meta(description="the playbook itself, as a mapping or as text, usually made by an earlier task"),
    ] = None
    version: Annotated[
        int | str | None, Meta(description="with path: the version in the catalog; default: the latest one")
    ] = None


class PlaybookTool(Tool):
    """Runs another playbook as a child execution and returns its output. `input` is its workload (D58, D103).

    A `document` is checked first. Its problems are an error of kind `playbook` with `details.problems`. It can
    use the keychain entries that its caller declares, and is not registered in the catalog.
    """

    kind = "playbook"
    ignores = ("auth", "timeout", "retry")
    Input = PlaybookInput
    free_input = True
    one_of = (("path", "document"),)
    example = """\
kind: playbook
path: examples/hello
input: {name: you}
"""
