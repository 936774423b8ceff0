"""Bodies of the routes that check, explain and draw playbooks, that describe tools, and that search facts.

A module of their own, because they import the net and the drawing, which a client does not need.
"""

from __future__ import annotations

from msgspec import Struct

from noetl.api.executions import Dialect
from noetl.drawing.chart import Role
from noetl.net.graph import Carries
from noetl.views.explain import Explanation
from noetl.views.fact_lines import FactLine
from noetl.views.tool_kinds import FieldDocument


class PlaybookReference(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, a registered path or a digest: exactly one of the three."""

    text: str | None = None
    dialect: Dialect = "canonical"
    path: str | None = None
    version: int | None = None  # None: the current one
    digest: str | None = None


class ExplainResponse(Struct, frozen=True, kw_only=True):
    text: str
    explanation: Explanation  # the same as data


class GraphStep(Struct, frozen=True, kw_only=True):
    """A node of the graph: a step, the entry, the end, a missing step, or any step a template may name."""

    place: int  # arcs refer to a step by this number
    role: Role
    name: str
    desc: str | None
    kinds: tuple[str, ...]  # of its tasks
    loop: str | None
    join: bool
    fork: bool
    gate: bool  # it has admission rules
    reached: bool  # from the entry
    line: int | None  # in the text; None: the node is not a step
    column: int | None
    x: float  # of its center
    y: float  # of its upper edge
    width: float
    height: float


class GraphArc(Struct, frozen=True, kw_only=True):
    start: int
    to: int
    when: str | None  # None: always
    carries: Carries
    back: bool
    dead: bool
    implied: bool  # the playbook has no arc here: the token ends
    points: tuple[tuple[float, float], ...]  # including both ends


class PlaybookGraph(Struct, frozen=True, kw_only=True):
    """The whole net, with the layout of a drawing."""

    name: str
    desc: str | None
    steps: tuple[GraphStep, ...]
    arcs: tuple[GraphArc, ...]


class ToolSummary(Struct, frozen=True, kw_only=True):
    kind: str
    summary: str
    pure: bool  # it has no side effects
    free_input: bool  # `input` holds the author's own arguments (D9)


class ToolList(Struct, frozen=True, kw_only=True):
    items: tuple[ToolSummary, ...]


class ToolDetails(Struct, frozen=True, kw_only=True):
    """A kind with everything that an author needs to know."""

    kind: str
    doc: str
    pure: bool
    free_input: bool
    fields: tuple[FieldDocument, ...]
    knobs: tuple[FieldDocument, ...]
    notes: tuple[str, ...]
    example: str
    output: tuple[FieldDocument, ...]  # the fields of its own part of the output


class FactsPage(Struct, frozen=True, kw_only=True):
    items: tuple[FactLine, ...]
    next: int | None = None  # `after` of the next page; None: the log ends here for now
