"""Whether a token may fire its step, and when a join fires (D35, D36).

Each function gives a fact, or None: not now.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from noetl.engine import facts
from noetl.engine.breakpoints import hold_before
from noetl.engine.facts import Fact, Token
from noetl.engine.scopes import moment
from noetl.engine.state import State
from noetl.engine.stored import NeedsValues, ValueTooLarge, ensure_readable, is_stored
from noetl.ids import run_id
from noetl.net.program import CompiledStep, Program
from noetl.output import JSON, Failure
from noetl.template.compile import Template, TemplateError


def of_token(program: Program, state: State, token: Token) -> Fact | None:
    """None: it waits already and is still not admitted."""
    step = program.steps[token.step]
    if step.join:
        return facts.StepWaiting(token=token.id, join=True, reads=step.admit_reads)
    fact = _admit(program, state, step, (token,), token.input)
    if fact is None and token.id not in state.waiting:
        return facts.StepWaiting(token=token.id, reads=step.admit_reads)
    return fact


def of_joins(program: Program, state: State, at: datetime) -> Fact | None:
    """A join fires when no live token can reach it; when nothing runs, the first in the document fires (D36).

    A join that does not admit its tokens holds the others, like any token that waits for admission.
    """
    if not state.joins:
        return None
    waiting = [name for name in program.steps if name in state.joins]
    held = reach(program, state.broken) | reach(program, state.running_at)
    for name in state.running_at:
        held |= program.bits[name]
    unadmitted = reach(program, state.waiting_at)
    open_ = list(waiting)
    for name in waiting:
        if not (held | unadmitted | _others(program, waiting, name)) & program.bits[name]:
            if fact := _fire(program, state, name, at):
                return fact
            open_.remove(name)
    if state.runs:
        return None
    for name in list(open_):
        if not (held | _others(program, open_, name)) & program.bits[name]:
            if fact := _fire(program, state, name, at):
                return fact
            open_.remove(name)
    for name in open_:
        if not held & program.bits[name] and (fact := _fire(program, state, name, at)):
            return fact
    return None


def _others(program: Program, waiting: list[str], name: str) -> int:
    return reach(program, [each for each in waiting if each != name])


def reach(program: Program, steps: Iterable[str]) -> int:
    """The steps that the arcs of these steps lead to, directly or not, as bits."""
    mask = 0
    for step in steps:
        mask |= program.reach[step]
    return mask


class JoinNeedsValues(Exception):
    """Whether a join fires depends on a value in the result store."""

    def __init__(self, join: str) -> None:
        self.join = join


def _fire(program: Program, state: State, name: str, at: datetime) -> Fact | None:
    try:
        return fire(program, state, name, at)
    except NeedsValues:
        raise JoinNeedsValues(name) from None


def fire(program: Program, state: State, name: str, at: datetime) -> Fact | None:
    """Fire with all tokens that have arrived. The input is bound now, once."""
    step = program.steps[name]
    tokens = tuple(state.tokens[token] for token in state.joins[name])
    scope: dict[str, JSON] = {
        "workload": state.workload,
        "ctx": state.ctx,
        "saved": state.saved,
        "execution_id": state.execution_id,
        "event": _event(step, tokens),
    }
    if state.stored:
        ensure_readable(step.pipeline.input, scope)
    try:
        input = step.pipeline.input(scope, moment(step.pipeline.input, at, f"{name}/input"))
    except TemplateError as error:
        return _spoiled(tokens, f'input of join "{name}"', error)
    try:
        for key, value in input.items():
            is_stored(program, f"input.{key}", value)
    except ValueTooLarge as error:
        return facts.StepFailed(tokens=tuple(token.id for token in tokens), error=error.failure)
    return _admit(program, state, step, tokens, input)


def _admit(
    program: Program, state: State, step: CompiledStep, tokens: tuple[Token, ...], input: dict[str, JSON]
) -> Fact | None:
    """One firing, if the tokens are admitted.

    If admission cannot be evaluated, the tokens are consumed (D16).
    """
    try:
        if not _admits(step, state, tokens, input):
            return None
    except TemplateError as error:
        return _spoiled(tokens, f'admission of "{step.name}"', error)
    return admitted(program, state, step, tokens, input)


def admitted(
    program: Program, state: State, step: CompiledStep, tokens: tuple[Token, ...], input: dict[str, JSON]
) -> Fact:
    """The firing of a step whose tokens are admitted."""
    if state.fired >= program.limits["firings"]:
        return over_limit(program, "firings", state.fired + 1)
    name = step.name
    return facts.StepScheduled(
        run=run_id(name, state.firings.get(name, 0) + 1),
        step=name,
        tokens=tuple([token.id for token in tokens]),
        input=input,
        deadline_at=tokens[0].deadline_at,
        loop=step.pipeline.loop is not None,
        compensable=step.source.compensate is not None,
        limited=step.pipeline.limit is not None,
        hold=hold_before(state, step.pipeline, input, state.ctx, tokens)
        if state.breakpoints or state.stepping
        else None,
    )


def _admits(step: CompiledStep, state: State, tokens: tuple[Token, ...], input: dict[str, JSON]) -> bool:
    if step.admit is None:
        return True
    scope = {
        "workload": state.workload,
        "ctx": state.ctx,
        "saved": state.saved,
        "execution_id": state.execution_id,
        "input": input,
        "event": _event(step, tokens),
    }
    for guard in step.admit:
        when = guard.when
        if state.stored and isinstance(when, Template):
            ensure_readable(when, scope)
        if when is True or (isinstance(when, Template) and when.holds(scope)):
            return guard.allow
    return False


def _event(step: CompiledStep, tokens: tuple[Token, ...]) -> dict[str, JSON]:
    """The event that admission reads; for a join with the tokens in the order of arrival (D36, D40)."""
    event = tokens[-1].event or {}
    if not step.join:
        return event
    return {**event, "tokens": [{"from": (token.event or {}).get("run"), "input": token.input} for token in tokens]}


def _spoiled(tokens: tuple[Token, ...], where: str, error: TemplateError) -> Fact:
    failure = Failure(kind="template", message=f"{where}: {error}")
    return facts.StepFailed(tokens=tuple(token.id for token in tokens), error=failure)


def over_limit(program: Program, name: str, value: int) -> facts.Finished:
    """A limit is exceeded: the execution ends with an error that names the limit (D70)."""
    limit = program.limits[name]
    message = f"{value:,} {name}; the limit is limits.{name} ({limit:,})"
    error = Failure(kind="limit", message=message, details={"limit": name})
    return facts.Finished(status="error", error=error)
