"""Why a step ran, waited or did not run: the guards, what they read, and their results."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct, field

from noetl.engine import Event, apply, facts
from noetl.engine.facts import Fact, NextEvaluated, Token
from noetl.engine.routing import arc_title
from noetl.engine.scopes import base_scope, moment, put
from noetl.engine.state import Run, State, Status
from noetl.engine.stored import NeedsValues, ensure_readable
from noetl.errors import NotFound
from noetl.escape import one_line, shorten
from noetl.ids import call_id, frame_parts, token_id
from noetl.net import describe
from noetl.net.program import Program, Write
from noetl.output import JSON, Failure, tries_of
from noetl.playbook import model
from noetl.template.compile import ScopePath, Template, TemplateError
from noetl.template.values import MISSING, lookup, path_text, to_json
from noetl.views.documents import LimitDocument
from noetl.views.runs import change_words, held_words, lost_words, permit_words, waits_for

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
    return tuple(SeenValue(path=one_line(path_text(path)), value=_found(scope, path)) for path in paths[:SEEN_MAX])


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
        "saved": state.saved,
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
        checks.append(GuardCheck(when=guard_text, allow=guard.allow, held=held, seen=seen_by(guard.when, scope)))
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
        ensure_readable(when, scope)
        return when.holds(scope)
    except (TemplateError, NeedsValues):
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
    pipeline = step.pipeline
    _write(scope, pipeline.failure_set if run.event == "step.failed" else pipeline.set, fact, (at, "set"))
    made: list[ArcCheck] = []
    for place, arc in enumerate(step.arcs):
        held = asked.get(place)
        why = "" if held is not None else _skip_reason(run, fact, takes_failure=arc.takes_failure)
        when, to = describe.guard(arc.source.when), describe.expression(arc.source.step)
        seen = seen_by(arc.when, scope)
        made.append(ArcCheck(place=place, to=to, when=when, held=held, why=why, seen=seen))
        if held:
            _write(scope, arc.set, fact, (at, f"set of {arc_title(place, state.level)}"))
    return tuple(made)


def _skip_reason(run: Run, fact: NextEvaluated, *, takes_failure: bool) -> str:
    if run.event == "step.failed" and not takes_failure:
        return "the step failed, and the arc applies to successes only"
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


def _write(scope: dict[str, JSON], writes: tuple[Write, ...], fact: NextEvaluated, when: tuple[datetime, str]) -> None:
    """The fact has the last value of each target; values that a guard saw before are evaluated again.

    Values that read stored data cannot be evaluated: the last value is used instead.
    """
    at, where = when
    values: list[JSON] = []
    for write in writes:
        seed = f"{fact.run}/{write.target} in {where}"
        try:
            known = scope["output"]["data"] is not _STORED
            values.append(write.value(scope, moment(write.value, at, seed)) if known else fact.set.get(write.target))
        except TemplateError:
            values.append(fact.set.get(write.target))
    for write, value in zip(writes, values, strict=True):
        scope[write.scope] = put(scope[write.scope], write.path, value)


RUNS_MAX = 20  # runs of a step: the newest
CALLS_MAX = 50  # calls of a run: the newest; of a loop only those that did not just continue
TOKENS_MAX = 50


class WhySource(Struct, frozen=True, kw_only=True):
    """A token, and the arc that made it."""

    token: str
    run: str | None = None  # None: the request itself
    arc: ArcCheck | None = None


class CallWhy(Struct, frozen=True, kw_only=True):
    """One call of a task, and the rule that decided what followed."""

    id: str
    task: str
    attempt: int
    status: str
    directive: str
    rule: str | None  # its description; None: no rule matched, or there is none
    error: Failure | None
    tries: int = 1  # more than one: `spec.retry` has repeated the call


class RunWhy(Struct, kw_only=True):
    """One run of the step: filled in as the log is read."""

    id: str
    sources: tuple[WhySource, ...] = ()
    called_by: str | None = None  # of a block: the calling frame
    retry_of: str | None = None
    waited: bool = False  # its token was not admitted at first
    admission: tuple[GuardCheck, ...] = ()
    input: tuple[SeenValue, ...] = ()
    calls: list[CallWhy] = field(default_factory=list)
    calls_left_out: int = 0
    iterations: tuple[int, int, int] | None = None  # total, succeeded, failed
    running: str | None = None  # the task that runs, if it takes long and the run is not a loop
    waits_for: str | None = None  # what its parked frame waits for
    ended: str | None = None  # step.done, step.failed, loop.done; None: it has not ended
    error: Failure | None = None
    arcs: tuple[ArcCheck, ...] = ()  # evaluated when it had ended
    routing_error: Failure | None = None
    compensates: str | None = None  # the run that it undoes
    undone_by: str | None = None  # its newest compensation
    changes: list[str] = field(default_factory=list)  # by hand: `ctx.total = 4, by ann`
    kept: int = 0  # of a fork: calls that did not run again
    kept_from: str | None = None  # the execution that has made them


def name_holders(runs: Iterable[RunWhy], limits: Iterable[LimitDocument]) -> None:
    """Runs that wait for a limit name the executions that hold it. The log does not contain this."""
    held_by = {each.waits: each.held_by for each in limits}
    for run in runs:
        if run.waits_for is not None and (holders := held_by.get(run.id)):
            run.waits_for += f"; held by {', '.join(holders)}"


class TokenWhy(Struct, frozen=True, kw_only=True):
    """A token that has reached the step without making a run."""

    source: WhySource
    join: bool
    admission: tuple[GuardCheck, ...]
    held_by: tuple[str, ...]  # of a join: descriptions of what can still reach it
    error: Failure | None  # its admission could not be evaluated


class TokenRoute(Struct, frozen=True, kw_only=True):
    """An arc that leads to the step, and why no token came along it."""

    step: str
    arc: ArcCheck
    run: str | None = None  # the last run that evaluated the arc; None: none did
    why: str


class Why(Struct, frozen=True, kw_only=True):
    step: str
    status: Status  # status of the execution
    ran: int
    runs: tuple[RunWhy, ...]
    tokens: tuple[TokenWhy, ...]
    ways: tuple[TokenRoute, ...]  # possible routes, when it neither ran nor was reached
    unreached: str | None = None  # the reason, when there is no route to it
    now: str | None = None  # why the whole execution does not advance now; only a server knows it


def why(program: Program, execution_id: str, events: Iterable[Event], step: str) -> Why:
    """Raises NotFound when the playbook has no such step and no such block."""
    fold = WhyFold(program, execution_id, step)
    for event in events:
        fold.feed(event)
    return fold.result()


class WhyFold:
    """Reads a log event by event, folds a state, and keeps everything about one step."""

    def __init__(self, program: Program, execution_id: str, step: str) -> None:
        """Raises NotFound when the playbook has no such step and no such block."""
        if step not in program.steps and step not in program.blocks:
            raise NotFound(f'the playbook has no step "{step}"')
        self.program, self.step = program, step
        self.is_step = step in program.steps  # A block may have the same name.
        self.state = State(execution_id=execution_id)
        self.ran = 0
        self.runs: dict[str, RunWhy] = {}
        self.sources: dict[str, WhySource] = {}  # token → its origin, for tokens that lead to the step
        self.waited: set[str] = set()
        self.routed: dict[tuple[str, int], TokenRoute] = {}  # step and arc → its last evaluation
        self.leads = _arcs_to(program, step)

    def feed(self, event: Event) -> None:
        self._before(event)
        apply(self.state, event.fact, event.at)
        self._after(event.fact)

    def _before(self, event: Event) -> None:
        """Collect evidence from the state in which the decision was made, before the fact is applied."""
        fact = event.fact
        match fact:
            case facts.Started(token=token) if token.step == self.step:
                self.sources[token.id] = WhySource(token=token.id)
            case facts.StepWaiting(token=id, limit=None) if id in self.sources and not fact.join:
                self.waited.add(id)
            case facts.StepScheduled(compensates=str(undone)) if undone in self.runs:
                self.runs[undone].undone_by = fact.run
            case facts.StepScheduled() if fact.step == self.step and _is_of_step(fact) == self.is_step:
                self._scheduled(fact)
            case facts.NextEvaluated(run=id):
                step = self.state.runs[id].step
                if id in self.runs or step in self.leads:
                    self._routed(fact, step, arc_checks(self.program, self.state, fact, event.at))
            case facts.TaskDone(frame=frame):
                run = self.runs.get(frame_parts(frame)[0])
                if run is not None:
                    self._called(run, fact)

    def _after(self, fact: Fact) -> None:
        name = getattr(fact, "frame", None) or getattr(fact, "run", None)
        if isinstance(fact, facts.HoldReleased | facts.ScopeChanged):
            name = frame_parts(fact.at)[0]
        run = self.runs.get(name) if name is not None else None
        if run is None:
            return
        match fact:
            case facts.LoopStarted() | facts.IterationDone() | facts.IterationFailed():
                self._count(run)
            case facts.StepScheduled(hold=facts.ForDebugger() as hold):
                run.waits_for = held_words(hold)
            case facts.StepScheduled(retry_of=str()):
                self._count(run)
            case facts.ScopeChanged():
                run.changes.append(change_words(fact))
            case facts.FrameParked():
                run.waits_for = waits_for(fact)
            case facts.StepWaiting(limit=str(limit), key=key):
                run.waits_for = permit_words(limit, key)
            case facts.FrameResumed() | facts.TaskDone() | facts.PermitGranted() | facts.HoldReleased():
                run.running = run.waits_for = None
            case facts.TaskStarted(task=task):
                run.running, run.waits_for = task, None
            case facts.FrameLost():
                run.running, run.waits_for = None, f"for another worker: {lost_words(fact)}"
            case facts.StepDone() | facts.LoopDone():
                run.ended, run.waits_for = str(fact.__struct_config__.tag), None
            case facts.StepFailed(error=error):
                run.ended, run.waits_for, run.error = "step.failed", None, error

    def _count(self, run: RunWhy) -> None:
        loop = self.state.runs[run.id].loop
        if loop is not None:
            run.iterations = (loop.count, loop.succeeded, loop.failed)

    def _scheduled(self, fact: facts.StepScheduled) -> None:
        tokens = tuple(self.state.tokens[each] for each in fact.tokens)
        self.ran += 1
        self.runs[fact.run] = RunWhy(
            id=fact.run,
            sources=tuple(self.sources.pop(each) for each in fact.tokens),
            called_by=fact.parent,
            retry_of=fact.retry_of,
            compensates=fact.compensates,
            waited=not self.waited.isdisjoint(fact.tokens),
            admission=admission_checks(self.program, self.state, tokens, fact.input) if tokens else (),
            input=tuple(SeenValue(path=key, value=value_text(value)) for key, value in fact.input.items()),
        )
        if len(self.runs) > RUNS_MAX:
            del self.runs[next(iter(self.runs))]

    def _called(self, run: RunWhy, fact: facts.TaskDone) -> None:
        if fact.kept:
            run.kept += 1
            run.kept_from = self.state.origins[0]
        looped = self.state.runs[run.id].loop is not None
        if looped and fact.directive in ("continue", "skip"):
            return
        if len(run.calls) == CALLS_MAX:
            del run.calls[0]
            run.calls_left_out += 1
        run.calls.append(
            CallWhy(
                id=call_id(fact.frame, fact.call),
                task=fact.task,
                attempt=fact.attempt,
                status=fact.status,
                directive=fact.directive,
                rule=_rule(self.program, self.step, fact),
                error=fact.error or (fact.output.error if fact.output is not None else None),
                tries=tries_of(fact.output),
            )
        )

    def _routed(self, fact: facts.NextEvaluated, step: str, arcs: tuple[ArcCheck, ...]) -> None:
        run = self.runs.get(fact.run)
        if run is not None:
            run.arcs, run.routing_error = arcs, fact.error
        targets = {token.id: token.step for token in fact.tokens}
        for arc in arcs:
            token = token_id(fact.run, arc.place)
            if targets.get(token) == self.step:
                self.sources[token] = WhySource(token=token, run=fact.run, arc=arc)
            if arc.place in self.leads.get(step, ()):
                why = _verdict(arc, targets.get(token), broken=fact.error is not None)
                self.routed[step, arc.place] = TokenRoute(step=step, arc=arc, run=fact.run, why=why)

    def result(self) -> Why:
        tokens = tuple(self._token(source) for source in [*self.sources.values()][:TOKENS_MAX])
        reached = bool(self.ran or tokens)
        ways = () if reached or not self.is_step else tuple(self._ways())
        return Why(
            step=self.step,
            status=self.state.status,
            ran=self.ran,
            runs=tuple(self.runs.values()),
            tokens=tokens,
            ways=ways,
            unreached=None if reached or ways else self._unreached(),
        )

    def _unreached(self) -> str:
        if self.step.endswith(f"/{model.COMPENSATE}"):
            return "the execution has undone nothing of this step"
        if not self.is_step:
            return "no task has called it"
        if self.step == self.program.playbook.entry:
            return "the execution was not started"
        return "no arc leads to it"

    def _token(self, source: WhySource) -> TokenWhy:
        state = self.state
        spoiled = state.spoiled.get(source.token)
        token = spoiled.token if spoiled is not None else state.tokens[source.token]
        step = self.program.steps[self.step]
        come = tuple(state.tokens[each] for each in state.joins.get(self.step, ())) or (token,)
        # A join binds its input when it fires, so its rules see no input yet.
        admission = admission_checks(self.program, state, come if step.join else (token,), token.input)
        return TokenWhy(
            source=source,
            join=step.join,
            admission=admission,
            held_by=tuple(self._held_by()) if step.join and spoiled is None else (),
            error=spoiled.error if spoiled is not None else None,
        )

    def _held_by(self) -> Iterable[str]:
        """What a join waits for (D36)."""
        state, program = self.state, self.program
        bit = program.bits[self.step]
        for name in state.broken:
            if program.reach[name] & bit:
                yield f'"{name}" has failed, and no arc handled the failure'
        for name in state.running_at:
            if program.reach[name] & bit or name == self.step:
                yield f'"{name}" is running'
        for name in state.waiting_at:
            if program.reach[name] & bit:
                yield f'a token waits at "{name}"'

    def _ways(self) -> Iterable[TokenRoute]:
        for step, places in self.leads.items():
            arcs = self.program.steps[step].arcs
            for place in places:
                written = arcs[place].source
                to, when = describe.expression(written.step), describe.guard(written.when)
                never = TokenRoute(step=step, arc=ArcCheck(place=place, to=to, when=when), why=self._never_routed(step))
                yield self.routed.get((step, place), never)

    def _never_routed(self, step: str) -> str:
        if step in self.state.running_at:
            return f'"{step}" has not ended' if self.state.live else f'"{step}" ended and was not routed'
        if self.state.firings.get(step):
            return f'"{step}" was stopped with the execution'
        if any(token.step == step for token in self.state.tokens.values()):
            return f'"{step}" did not run: a token waits there'
        return f'"{step}" did not run'


def _is_of_step(fact: facts.StepScheduled) -> bool:
    """Not of a block, and not a compensation."""
    return fact.parent is None and fact.compensates is None


def _verdict(arc: ArcCheck, target: str | None, *, broken: bool) -> str:
    if arc.held is None:
        return f"not evaluated, because {arc.why}"
    if not arc.held:
        return "its guard was false"
    return "routing could not be evaluated" if broken else f'it led to "{target or model.END}"'


def _arcs_to(program: Program, step: str) -> dict[str, list[int]]:
    """The possible origins of tokens for the step: step → indexes of its arcs."""
    found: dict[str, list[int]] = {}
    for name, each in program.steps.items():
        for place, arc in enumerate(each.arcs):
            if arc.targets is None or step in arc.targets:
                found.setdefault(name, []).append(place)
    return found


def _rule(program: Program, owner: str, fact: facts.TaskDone) -> str | None:
    """The description of the rule that was taken."""
    if fact.rule is None:
        return None
    name = owner if any(each.name == owner for each in program.playbook.pipelines) else owner.rpartition("/")[0]
    for pipeline in program.playbook.pipelines:
        for task in pipeline.tasks if pipeline.name == name else ():
            if task.name == fact.task and task.policy is not None:
                return _rule_text(task.policy, fact.rule)
    return None


def _rule_text(policy: model.Policy, place: int | str) -> str | None:
    if isinstance(place, int):
        return describe.rule(policy.rules[place]) if place < len(policy.rules) else None
    return next((describe.rule(each) for each in policy.rules if each.when is None), None)
