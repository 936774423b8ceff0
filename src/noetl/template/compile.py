"""Templates: text with `{{ … }}`, compiled once and evaluated often, safely and within limits (D12–D17).

The syntax is that of Jinja2; this package evaluates it over plain JSON values. A template knows which paths it
reads and which functions it calls. It does not know which part of a playbook it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from noetl.template import nodes
from noetl.template.context import CompileContext, Read, Run, Scope
from noetl.template.expressions import HANDLERS, compile_path
from noetl.template.filters import FILTERS, OMITTED
from noetl.template.functions import FUNCTIONS, METHODS
from noetl.template.limits import Meter, json_text
from noetl.template.projection import ProjectedPart, Projection, reads_data
from noetl.template.shell import ShellPlacements
from noetl.template.sql import SqlPlacements
from noetl.template.statements import Binding, BodyCompiler, TextBlock, reject_statement
from noetl.template.syntax import BadTemplate, Fault, parse
from noetl.template.tests import TESTS
from noetl.template.values import (
    JSON,
    OMIT,
    PLAIN,
    Moment,
    ScopePath,
    TemplateError,
    Undefined,
    is_template,
    kind_of,
    truth,
    undefined,
)

__all__ = [
    "FILTERS",
    "FUNCTIONS",
    "METHODS",
    "OMITTED",
    "TESTS",
    "BadTemplate",
    "Fault",
    "Moment",
    "Read",
    "ScopePath",
    "Template",
    "TemplateError",
    "Value",
    "build_value",
    "compile_template",
    "compile_value",
    "is_template",
    "json_text",
    "truth",
]

_QUOTED_CHARS_MAX = 80  # characters of an expression that an error message repeats


class Template:
    """A compiled template. Call it with a scope for its value, or use `holds` for its truth."""

    __slots__ = (
        "_projected", "_run", "_slots", "calls", "compared", "constant", "omits", "parts", "reads", "sole_path",
        "source", "typed",
    )  # fmt: skip

    def __init__(
        self, source: str, run: Run, context: CompileContext, *, typed: bool, sole_path: ScopePath | None
    ) -> None:
        self.source = source
        self.reads: tuple[Read, ...] = tuple(context.reads)
        self.calls = frozenset(context.calls)  # of "now", "today", "uuid"
        self.compared = tuple(context.compared)
        self.typed = typed  # the text is exactly one {{ expression }}, so the value keeps its type (D12)
        self.omits = context.omits  # its value may be OMIT: the key of a mapping that is left out
        self.constant = not (self.reads or self.calls)
        self.sole_path = sole_path  # the template is exactly this path; None: it is not a single path
        self.parts: tuple[ProjectedPart, ...] = ()  # of a projected template: the parts that a worker evaluates
        self._projected: dict[bool, Template] = {}
        self._run = run
        self._slots = context.slots

    def __repr__(self) -> str:
        return f"Template({self.source!r})"

    def __call__(self, scope: Scope, moment: Moment | None = None) -> JSON:
        """The value in this scope. An undefined value raises a TemplateError that names its path (D14)."""
        meter = Meter()
        if moment is not None:
            meter.moment = moment
        return self.evaluate(scope, meter)

    def projected(self, *, truth_only: bool = False) -> Template:
        """The same template over projected parts: the scope has their values instead of output.data (D52).

        `truth_only`: the result is used only with `holds`.
        """
        if not reads_data(self.reads):
            return self
        if truth_only not in self._projected:
            self._projected[truth_only] = _projected_template(self.source, truth_only=truth_only)
        return self._projected[truth_only]

    def holds(self, scope: Scope, moment: Moment | None = None) -> bool:
        """Is the template true in this scope (D15)? An undefined value is false."""
        meter = Meter()
        if moment is not None:
            meter.moment = moment
        value = self._guarded(scope, meter)
        return value if value is True or value is False else truth(value)

    def evaluate(self, scope: Scope, meter: Meter) -> JSON:
        """The value, charged to a meter that several templates may share."""
        return self._checked(self._guarded(scope, meter))

    def evaluate_key(self, scope: Scope, meter: Meter) -> JSON:
        """The value of a key of a mapping; OMIT: the key is left out."""
        value = self._guarded(scope, meter)
        return value if value is OMIT else self._checked(value)

    def _checked(self, value: JSON) -> JSON:
        if type(value) in PLAIN:
            return value
        if type(value) is Undefined:
            raise self._named(undefined(value)) from None
        raise self._named(TemplateError(f"the value is {kind_of(value)}"))

    def _guarded(self, scope: Scope, meter: Meter) -> JSON:
        """Evaluate, and turn every exception except a failed assertion into a TemplateError."""
        if self._slots:
            meter.slots = [None] * self._slots
        try:
            return self._run(scope, meter)
        except TemplateError as error:
            raise self._named(error) from None
        except RecursionError:
            raise self._named(TemplateError("the data is nested too deeply")) from None
        except AssertionError:
            raise
        except Exception as error:
            raise self._named(TemplateError("it cannot be evaluated")) from error

    def _named(self, error: TemplateError) -> TemplateError:
        """The same error, with the author's expression at the start of its message."""
        text = " ".join(self.source.split())
        if error.tag is not None:
            from noetl.template.jinja import tag_sources

            sources = tag_sources(self.source)
            text = sources[error.tag] if error.tag < len(sources) else text
        if len(text) > _QUOTED_CHARS_MAX:
            text = text[: _QUOTED_CHARS_MAX - 1] + "…"
        named = TemplateError(f'"{text}": {error.message}', error.path)
        named.kind = error.kind
        return named


class Value:
    """A JSON structure whose strings may be templates, compiled once. Keys are never templates."""

    __slots__ = ("_build", "_projected", "_value", "calls", "parts", "reads", "templates")

    def __init__(self, build: Run | None, value: JSON, parts: list[Template]) -> None:
        self.templates = tuple(parts)
        self.reads: tuple[Read, ...] = ()
        self.calls: frozenset[str] = frozenset()
        self.parts: tuple[ProjectedPart, ...] = ()
        if len(parts) == 1:
            self.reads, self.calls, self.parts = parts[0].reads, parts[0].calls, parts[0].parts
        elif parts:
            self.reads = tuple(dict.fromkeys(read for part in parts for read in part.reads))
            self.calls = self.calls.union(*(part.calls for part in parts))
            self.parts = tuple({part.key: part for each in parts for part in each.parts}.values())
        self._projected: Value | None = None
        self._value = value
        self._build = build  # None: it holds no template and is the value itself

    def __call__(self, scope: Scope, moment: Moment | None = None, budget: type[Meter] = Meter) -> JSON:
        """The structure with every template evaluated. All of them share one meter."""
        if self._build is None:
            return self._value
        meter = budget()
        if moment is not None:
            meter.moment = moment
        try:
            return self._build(scope, meter)
        except RecursionError:
            raise TemplateError("the structure is nested too deeply") from None

    def projected(self, *, truth_only: bool = False) -> Value:
        """The same structure over projected parts. A structure is never used for its truth alone."""
        assert not truth_only
        if not reads_data(self.reads):
            return self
        if self._projected is None:
            self._projected = _value(self._value, lambda text, _at: _projected_template(text))
        return self._projected


# Compiles the text at a path of a structure; None: the text is not a template.
TextCompiler: TypeAlias = Callable[[str, ScopePath], Template | None]


def compile_template(source: str, *, statements: bool = False, sql: bool = False, shell: bool = False) -> Template:
    """Compile a template, or raise BadTemplate with all of its faults.

    `statements` allows {% if %} and {% for %}. With `sql` or `shell` the value is {"text": […], "values": […]}:
    each {{ }} becomes a value between two pieces of text.
    """
    if sql or shell:
        return _bound_template(source, shell=shell)
    return _template(source, statements=statements)


def _projected_template(source: str, *, truth_only: bool = False) -> Template:
    projection = Projection()
    template = _template(source, projection=projection, truth_only=truth_only)
    template.parts = tuple(projection.parts.values())
    return template


def _template(
    source: str, *, statements: bool = False, projection: Projection | None = None, truth_only: bool = False
) -> Template:
    syntax = parse(source)
    context = CompileContext(HANDLERS, compile_path, syntax.cr_stand_in, projection)
    for statement in syntax.statements:
        if statement.name == "print":
            reject_statement("print", statement.line, context)
    sole = _sole(source, syntax.body)
    try:
        if sole is not None:
            expr = context.expression(sole, truth_only=truth_only)
            run, sole_path = expr.run, expr.path
        else:
            run, sole_path = _text(BodyCompiler(context, statements=statements).block(syntax.body)), None
    except RecursionError:
        # The limits prevent this, unless the call stack of the caller is already deep.
        raise BadTemplate((Fault("bad-template", "the template is nested too deeply", 1),)) from None
    if context.faults:
        raise BadTemplate(tuple(context.faults))
    return Template(source, run, context, typed=sole is not None, sole_path=sole_path)


def _bound_template(source: str, *, shell: bool) -> Template:
    syntax = parse(source)
    context = CompileContext(HANDLERS, compile_path, syntax.cr_stand_in)
    placements = ShellPlacements(context) if shell else SqlPlacements(context)
    try:
        run = _bound(BodyCompiler(context, statements=True, sql=placements).block(syntax.body))
    except RecursionError:
        raise BadTemplate((Fault("bad-template", "the template is nested too deeply", 1),)) from None
    if isinstance(placements, SqlPlacements) and placements.empty and not context.faults:
        message = "a {{ }} in SQL is bound as a value, so it cannot be the whole statement"
        context.fault("sql-not-a-value", message, 1, None, "write the statement here")
    if context.faults:
        raise BadTemplate(tuple(context.faults))
    return Template(source, run, context, typed=False, sole_path=None)


def _sole(source: str, body: list[nodes.Node]) -> nodes.ExprNode | None:
    """The expression of a template that is exactly one {{ }}, ignoring surrounding white space (D12)."""
    text = source.strip()
    if not (text.startswith("{{") and text.endswith("}}") and len(body) == 1 and isinstance(body[0], nodes.OutputNode)):
        return None
    parts = [part for part in body[0].nodes if not (isinstance(part, nodes.TemplateDataNode) and part.data.isspace())]
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], nodes.TemplateDataNode) else None


def _text(block: TextBlock) -> Run:
    def run(scope: Scope, meter: Meter) -> JSON:
        out: list[str] = []
        meter.written = 0
        block.write(scope, meter, out)
        return meter.keep("".join(out))

    return run


def _bound(block: TextBlock) -> Run:
    """Build alternating pieces of text and values, with a piece of text first and last."""

    def run(scope: Scope, meter: Meter) -> JSON:
        out: list[JSON] = []
        meter.written = 0
        block.write(scope, meter, out)
        texts: list[str] = []
        values: list[JSON] = []
        piece: list[str] = []
        for each in out:
            if type(each) is Binding:
                texts.append(meter.keep("".join(piece)))
                values.append(each.value)
                piece = []
            else:
                piece.append(each)
        texts.append(meter.keep("".join(piece)))
        return {"text": texts, "values": values}

    return run


def compile_value(value: JSON, *, statements: bool = False, sql: frozenset[tuple[str, ...]] = frozenset()) -> Value:
    """Compile all templates of a structure, or raise BadTemplate with the faults of all of them.

    `sql`: the paths of SQL texts, whose {{ }} are bound; each becomes {"text": […], "values": […]}.
    """
    return _value(value, lambda text, at: compile_template(text, statements=statements, sql=at in sql), sql)


def _value(value: JSON, compile_one: TextCompiler, sql: frozenset[tuple[str, ...]] = frozenset()) -> Value:
    faults: dict[Fault, None] = {}

    def collect(text: str, at: ScopePath) -> Template | None:
        try:
            return compile_one(text, at)
        except BadTemplate as bad:
            faults.update(dict.fromkeys(bad.faults))
            return None

    try:
        made = build_value(value, collect, sql)
    except RecursionError:
        raise BadTemplate((Fault("bad-template", "the structure is nested too deeply", 1),)) from None
    if faults:
        raise BadTemplate(tuple(faults))
    return made


def build_value(value: JSON, compile_one: TextCompiler, sql: frozenset[tuple[str, ...]] = frozenset()) -> Value:
    """A structure whose templates the caller compiles: `compile_one` gets each text and its path in `value`.

    A text for which it returns None stays as it is.
    """
    parts: list[Template] = []
    return Value(_build(value, (), parts, compile_one, sql), value, parts)


def _build(
    value: JSON, at: ScopePath, parts: list[Template], compile_one: TextCompiler, sql: frozenset[tuple[str, ...]]
) -> Run | None:
    """The function that builds the value in a scope; None: the value holds no template."""
    if type(value) is str:
        if is_template(value):
            template = compile_one(value, at)
            if template is None:
                return None
            parts.append(template)
            return template.evaluate
        if sql and at in sql:
            return lambda _scope, _meter: {"text": [value], "values": []}
        return None
    if type(value) is list:
        items = [_build(item, (*at, index), parts, compile_one, sql) for index, item in enumerate(value)]
        return _compiled_list(value, items)
    if type(value) is dict:
        built: dict[str, Run | None] = {}
        omitted = False
        for key, item in value.items():
            built[key] = _build(item, (*at, key), parts, compile_one, sql)
            if built[key] is not None and type(item) is str and is_template(item) and parts[-1].omits:
                built[key], omitted = parts[-1].evaluate_key, True
        return _compiled_map(value, built) if not omitted else _shorter_map(value, built)
    return None


def _compiled_list(value: list[JSON], built: list[Run | None]) -> Run | None:
    if not any(built):
        return None
    pairs = list(zip(value, built, strict=True))
    return lambda scope, meter: [item if build is None else build(scope, meter) for item, build in pairs]


def _compiled_map(value: dict[str, JSON], built: dict[str, Run | None]) -> Run | None:
    if not any(built.values()):
        return None
    parts = [(key, item, built[key]) for key, item in value.items()]
    return lambda scope, meter: {key: item if build is None else build(scope, meter) for key, item, build in parts}


def _shorter_map(value: dict[str, JSON], built: dict[str, Run | None]) -> Run:
    """The map without the keys whose value is omit()."""

    def run(scope: Scope, meter: Meter) -> JSON:
        made = {key: item if (build := built[key]) is None else build(scope, meter) for key, item in value.items()}
        return {key: item for key, item in made.items() if item is not OMIT}

    return run
