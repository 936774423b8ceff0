"""What guards read when they were asked, and whether they held: the evidence for why things went as they did.

The log says what held; the values are looked up in the state of that moment, cut to a size that can be shown.
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
SEEN_MAX = 20  # paths of one guard that are shown
_STORED = "(it lies in the result store)"  # output.data, when a worker has evaluated what reads it (D52)


class SeenValue(Struct, frozen=True, kw_only=True):
    """A path that a guard reads, and what stood there."""

    path: str
    value: str  # short JSON, or "undefined"


class ArcCheck(Struct, frozen=True, kw_only=True):
    """An arc, when its step had ended."""

    place: int
    to: str
    when: str | None  # None: every success
    held: bool | None = None  # None: it was not asked
    why: str = ""  # it was not asked because …
    seen: tuple[SeenValue, ...] = ()


class GuardCheck(Struct, frozen=True, kw_only=True):
    """A rule of a step's admission."""

    when: str | None  # None: else
    allow: bool
    held: bool | None  # None: one before it held; or it can not be evaluated
    seen: tuple[SeenValue, ...] = ()


def shown(value: JSON) -> str:
    """A value as one short line that is safe to print."""
    try:
        return shorten(one_line(to_json(value)), VALUE_CHARS_MAX)
    except TemplateError as error:
        return f"({error.message})"


def seen_by(template: object, scope: dict[str, JSON]) -> tuple[SeenValue, ...]:
    """What a guard reads, in the order in which the author wrote it."""
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
    return _STORED if value is _STORED else shown(value)


def admission_checks(
    program: Program, state: State, tokens: tuple[Token, ...], input: dict[str, JSON]
) -> tuple[GuardCheck, ...]:
    """The rules of admission as they stand in this state; the first that holds decides (D35)."""
    name = tokens[0].step
    step = program.steps[name]
    scope: dict[str, JSON] = {
        "workload": state.workload,
        "ctx": state.ctx,
        "execution_id": state.execution_id,
        "input": input,
        "event": _admission_event(tokens, join=step.join),
    }
    asked: list[GuardCheck] = []
    decided = False
    for guard in step.admit or ():
        held = None if decided else _holds(guard.when, scope)
        decided = decided or held is not False
        said = _guard(guard.source.when)
        asked.append(GuardCheck(when=said, allow=guard.allow, held=held, seen=seen_by(guard.when, scope)))
    return tuple(asked)


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
        why = "" if held is not None else _unasked(run, fact, takes_failure=arc.takes_failure)
        when, to = describe.guard(arc.source.when), describe.expression(arc.source.step)
        seen = seen_by(arc.when, scope)
        made.append(ArcCheck(place=place, to=to, when=when, held=held, why=why, seen=seen))
        if held:
            _write(scope, arc.set, fact, (at, f"set of arc {place}"))
    return tuple(made)


def _unasked(run: Run, fact: NextEvaluated, *, takes_failure: bool) -> str:
    if run.event == "step.failed" and not takes_failure:
        return "it carries success only, and the step failed"
    if fact.error is not None:
        return "routing could not be evaluated"
    return "an arc before it was taken"


def _routing_scope(state: State, run: Run) -> dict[str, JSON]:
    """What arcs read, as in routing."""
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
    scope: dict[str, JSON], writes: tuple[Write, ...], fact: NextEvaluated, told: tuple[datetime, str]
) -> None:
    """The fact has the last value of each target; what a guard saw in between is worked out again.

    Of data that lies in a store nothing can be worked out: there the last value must do.
    """
    at, where = told
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
