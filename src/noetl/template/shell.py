"""Templates in shell scripts: each `{{ }}` stays a value between two pieces of text, unless it is `raw_shell` (D109).

The shell tool passes the values to the shell beside the script, so that they are never parsed as commands.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.template import nodes
from noetl.template.context import CompileContext
from noetl.template.sql import SqlPlacement, joined


class ShellPlacements:
    """The tags of one script, and how each value is inserted."""

    def __init__(self, context: CompileContext) -> None:
        self._context = context

    def parts(self, trees: list[nodes.ExprNode]) -> Iterator[str | SqlPlacement]:
        """Texts and tags in order."""
        for item in joined(trees, self._context):
            if isinstance(item, str):
                yield item
            else:
                raw = isinstance(item, nodes.FilterNode) and item.name == "raw_shell"
                yield SqlPlacement(item, "name" if raw else "value")

    def leave(self) -> None:
        """The position of a tag is not checked here, so nothing is remembered."""
