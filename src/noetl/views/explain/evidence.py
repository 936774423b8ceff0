"""The evidence for routing and admission: what guards read when they were evaluated, and whether they held.

The log says what held; the values come from the state at that moment, shortened for display.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from noetl.engine.facts import NextEvaluated, Token
from noetl.engine.scopes import base_scope, moment, put
from noetl.engine.state import Run, State
from noetl.escape import one_line, shorten
from noetl.net import describe
from noetl.net.program import Program, Write
from noetl.output import JSON
from noetl.playbook import model
from noetl.template.compile import ScopePath, Template, TemplateError
from noetl.template.values import MISSING, lookup, path_text, to_json

VALUE_CHARS_MAX = 200
SEEN_MAX = 20  # paths of one guard that are displayed
_STORED = "(in the result store)"  # instead of output.data, when a worker has evaluated its readers (D52)


class SeenValue(Struct, frozen=True, kw_only=True):
    """A path that a guard reads, and its value."""

    path: str
    value: str  # short JSON, or "undefined"


class ArcCheck(Struct, frozen=True, kw_only=True):
    """The evaluation of an arc after its step had ended."""

    place: int
    to: str
    when: str | None  # None: every success
    held: bool | None = None  # None: it was not evaluated
    why: str = ""  # why it was not evaluated
    seen: tuple[SeenValue, ...] = ()


class GuardCheck(Struct, frozen=True, kw_only=True):
    """The evaluation of an admission rule."""

    when: str | None  # None: else
    allow: bool
    held: bool | None  # None: an earlier rule held, or it cannot be evaluated
    seen: tuple[SeenValue, ...] = ()


def value_text(value: JSON) -> str:
    """A value as one short line that is safe to print."""
    try:
        return shorten(one_line(to_json(value)), VALUE_CHARS_MAX)
    except TemplateError as error:
        return f"({error.message})"


def seen_by(template: object, scope: dict[str, JSON]) -> tuple[SeenValue, ...]:
    """The values that a guard reads, in the order of its text."""
    if not isinstance(template, Template):
        return ()
    paths = list(dict.fromkeys(read.path for read in template.reads))
    return tuple(
        SeenValue(path=one_line(path_text(path)), value=_found(scope, path)) for path in paths[:SEEN_MAX]
    )


def _found(scope: dict[str, JSON], path: ScopePath) -> str:
    value: JSON = scope
    for part in path:
        if value is not _STORED:
            value = lookup(value, part)
        if value is MISSING:
            return "undefined"
    return _STORED if value is _STORED else value_text(value)


def admission_checks(
    program: Program, state: State, tokens: tuple[Token, ...], input: dict[str, JSON]
) -> tuple[GuardCheck, ...]:
    """The admission rules in this state; the first that holds decides (D35)."""
    name = tokens[0].step
    step = program.steps[name]
    scope: dict[str, JSON] = {
        "workload": state.workload,
        "ctx": state.ctx,
        "execution_id": state.execution_id,
        "input": input,
        "event": _admission_event(tokens, join=step.join),
    }
    checks: list[GuardCheck] = []
    decided = False
    for guard in step.admit or ():
        held = None if decided else _holds(guard.when, scope)
        decided = decided or held is not False
        guard_text = _guard(guard.source.when)
        checks.append(
            GuardCheck(when=guard_text, allow=guard.allow, held=held, seen=seen_by(guard.when, scope))
        )
    return tuple(checks)


def _admission_event(tokens: tuple[Token, ...], *, join: bool) -> dict[str, JSON]:
    event = tokens[-1].event or {}
    if not join:
        return event
    listed = [{"from": (token.event or {}).get("run"), "input": token.input} for token in tokens]
    return {**event, "tokens": listed}


def _holds(when: Template | bool, scope: dict[str, JSON]) -> bool | None:
    if not isinstance(when, Template):
        return when
    try:
        return when.holds(scope)
    except TemplateError:
        return None


def _guard(when: model.When | None) -> str | None:
    if when is None:
        return None
    return describe.guard(when) or "true"


def arc_checks(program: Program, state: State, fact: NextEvaluated, at: datetime) -> tuple[ArcCheck, ...]:
    """Every arc of a run that is routed now, before the fact is applied."""
    run = state.runs[fact.run]
    step = program.steps[run.step]
    asked = dict(fact.asked)
    scope = _routing_scope(state, run)
    if run.event != "step.failed":
        _write(scope, step.pipeline.set, fact, (at, "set"))
    made: list[ArcCheck] = []
    for place, arc in enumerate(step.arcs):
        held = asked.get(place)
        why = "" if held is not None else _skip_reason(run, fact, takes_failure=arc.takes_failure)
        when, to = describe.guard(arc.source.when), describe.expression(arc.source.step)
        seen = seen_by(arc.when, scope)
        made.append(ArcCheck(place=place, to=to, when=when, held=held, why=why, seen=seen))
        if held:
            _write(scope, arc.set, fact, (at, f"set of arc {place}"))
    return tuple(made)


def _skip_reason(run: Run, fact: NextEvaluated, *, takes_failure: bool) -> str:
    if run.event == "step.failed" and not takes_failure:
        return "it takes success only, and the step failed"
    if fact.error is not None:
        return "routing could not be evaluated"
    return "an earlier arc was taken"


def _routing_scope(state: State, run: Run) -> dict[str, JSON]:
    """The scope of arcs, as in routing."""
    output = run.output
    assert output is not None
    view = output.view()
    if run.picked is not None:
        view["data"] = _STORED
    event: dict[str, JSON] = {
        "name": run.event, "status": output.status, "step": run.step, "run": run.id,
    }  # fmt: skip
    if output.error is not None:
        event["error"] = output.error.view()
    return {**base_scope(state, run), "output": view, "event": event}


def _write(
    scope: dict[str, JSON], writes: tuple[Write, ...], fact: NextEvaluated, when: tuple[datetime, str]
) -> None:
    """The fact has the last value of each target; values that a guard saw before are evaluated again.

    Values that read stored data cannot be evaluated: the last value is used instead.
    """
    at, where = when
    values: list[JSON] = []
    for write in writes:
        seed = f"{fact.run}/{write.target} in {where}"
        try:
            known = scope["output"]["data"] is not _STORED
            values.append(write.value(scope, moment(at, seed)) if known else fact.set.get(write.target))
        except TemplateError:
            values.append(fact.set.get(write.target))
    for write, value in zip(writes, values, strict=True):
        scope[write.scope] = put(scope[write.scope], write.path, value)
