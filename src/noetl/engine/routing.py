"""Routing of a run that has ended: step `set`, evaluation of arcs, new tokens (D28, D37–D41, D74).

The run of a block resumes the frame that called it instead.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from noetl.engine import facts
from noetl.engine.facts import Token
from noetl.engine.saved import saved_misfit
from noetl.engine.scopes import base_scope, ctx_misfit, deadline, in_parallel, misfit, moment, put, view
from noetl.engine.state import Run, State
from noetl.engine.stored import NeedsValues, ValueTooLarge, ensure_readable, has_marks, is_stored
from noetl.ids import token_id
from noetl.net.program import SAVED, CompiledArc, CompiledPipeline, CompiledStep, Program, Write
from noetl.output import JSON, Failure, Output
from noetl.playbook.model import END
from noetl.template.compile import Template, TemplateError, Value
from noetl.template.projection import PROJECTED, error_entry


class _Broken(Exception):
    """Routing failed: something cannot be evaluated or written, or the target does not exist (D16, D41)."""

    def __init__(self, kind: str, message: str) -> None:
        self.failure = Failure(kind=kind, message=message)


def route(program: Program, state: State, run: Run, at: datetime) -> facts.NextEvaluated:
    router = _Router(program, state, run, at)
    step = program.steps[run.step]
    try:
        router.write_step_set(step.pipeline)
    except _Broken as broken:
        return facts.NextEvaluated(run=run.id, error=broken.failure)
    written = dict(router.written)
    try:
        return router.route(step)
    except _Broken as broken:  # No arc fires, so no arc writes anything; and a step that failed saves nothing.
        written = {target: value for target, value in written.items() if not target.startswith(f"{SAVED}.")}
        stored = tuple(target for target in router.stored if target in written)
        return facts.NextEvaluated(
            run=run.id, set=written, asked=tuple(router.asked), error=broken.failure, stored=stored
        )


def answer(program: Program, state: State, run: Run, at: datetime) -> facts.FrameResumed:
    """A block has ended: evaluate its `set`, then resume its caller with its output."""
    assert run.output is not None
    assert run.parent is not None
    output = run.output
    router = _Router(program, state, run, at)
    if in_parallel(state, run):
        router.scope["ctx"] = view(state, run)
    try:
        router.write_step_set(program.blocks[run.step])
    except _Broken as broken:
        output, router.written, router.stored = Output(status="error", error=broken.failure), {}, []
    return facts.FrameResumed(
        frame=run.parent, output=output, run=run.id, set=router.written, stored=tuple(router.stored)
    )


def arc_title(place: int, level: int) -> str:
    """The name of an arc in messages. They count from 1; in the first version of the language, from 0."""
    return f"arc {place if level < 2 else place + 1}"


class _Router:
    """One evaluation. Its scope contains the writes made so far."""

    def __init__(self, program: Program, state: State, run: Run, at: datetime) -> None:
        self.program, self.run, self.at = program, run, at
        self.marked = state.stored
        self.level = state.level
        self.written: dict[str, JSON] = {}
        self.stored: list[str] = []  # the targets whose values are, or belong, in the result store
        self.asked: list[tuple[int, bool]] = []
        self.scope = base_scope(state, run)
        self.picked = run.picked

    def write_step_set(self, pipeline: CompiledPipeline) -> None:
        """After a failure only the entries that ask for it are applied (D102)."""
        self._see_output()
        self.scope["event"] = self.event()
        failed = self.run.event == "step.failed"
        writes = pipeline.failure_set if failed else pipeline.set
        if not writes:
            return
        try:
            self.write(writes, "set")
        except _Broken as broken:
            assert self.run.output is not None
            broken.failure = replace(broken.failure, cause=self.run.output.error if failed else None)
            raise

    def _see_output(self) -> None:
        run, output = self.run, self.run.output
        assert output is not None
        self.scope["output"] = output.view()
        if run.loop is not None and output.ref is not None and output.data is None and run.picked is None:
            self.picked = _out_of_reach(self.program.pipeline(run.step, block=run.block))
        if self.picked is not None:
            self.scope[PROJECTED] = self.picked

    def event(self) -> dict[str, JSON]:
        """The event that guards, admission and joins read (D40)."""
        run, output = self.run, self.run.output
        assert output is not None
        made: dict[str, JSON] = {"name": run.event, "status": output.status, "step": run.step, "run": run.id}
        if output.error is not None:
            made["error"] = output.error.view()
        return made

    def route(self, step: CompiledStep) -> facts.NextEvaluated:
        failed = self.run.event == "step.failed"
        event = self.scope["event"]
        tokens: list[Token] = []
        ended = 0
        for place, arc in enumerate(step.arcs):
            if failed and not arc.takes_failure:
                continue
            holds = self._holds(arc, place)
            self.asked.append((place, holds))
            if not holds:
                continue
            target = self._target(arc, place)
            if arc.set:
                self.write(arc.set, f"set of {arc_title(place, self.level)}")
            if target == END and END not in self.program.steps:
                ended += 1
            else:
                tokens.append(self._token(target, place, event))
            if not step.inclusive:
                break
        return facts.NextEvaluated(
            run=self.run.id,
            set=self.written,
            asked=tuple(self.asked),
            tokens=tuple(tokens),
            ended=ended,
            stored=tuple(self.stored),
        )

    def _value(self, value: Value | Template, where: str, scope: dict[str, JSON] | None = None) -> JSON:
        if self.picked is not None:
            value = value.projected()
        if self.marked:
            ensure_readable(value, scope or self.scope)
        try:
            return value(scope or self.scope, moment(value, self.at, f"{self.run.id}/{where}"))
        except TemplateError as error:
            raise _Broken(error.kind, f'{where} of "{self.run.step}": {error}') from None

    def _holds(self, arc: CompiledArc, place: int) -> bool:
        when = arc.when
        if not isinstance(when, Template):
            return when
        if self.picked is not None:
            when = when.projected(truth_only=True)
        if self.marked:
            ensure_readable(when, self.scope)
        try:
            return when.holds(self.scope, moment(when, self.at, f"{self.run.id}>{place}"))
        except TemplateError as error:
            raise _Broken(error.kind, f'when of {arc_title(place, self.level)} of "{self.run.step}": {error}') from None

    def _target(self, arc: CompiledArc, place: int) -> str:
        if isinstance(arc.target, str):
            return arc.target
        title = arc_title(place, self.level)
        target = self._value(arc.target, f"step of {title}")
        known = isinstance(target, str) and (target in self.program.steps or target == END)
        if not known or (arc.targets is not None and target not in arc.targets):
            raise _Broken("routing", f'{title} of "{self.run.step}" may not lead to "{target}"')
        assert isinstance(target, str)
        return target

    def write(self, writes: tuple[Write, ...], where: str) -> None:
        """Evaluate all right sides, then write (D28); later evaluations see the writes."""
        values = [(write, self._value(write.value, f"{write.target} in {where}")) for write in writes]
        for write, value in values:
            if failure := misfit(write.target, value, self.scope["execution_id"], origin=write.origin):
                raise _Broken(failure.kind, f'{where} of "{self.run.step}": {failure.message}')
            if write.scope == SAVED:
                self._save(write, value, where)
                continue
            self._weigh(write.target, value, where)
            if self.marked and has_marks(self.scope, (write.scope, *write.path), below=False):
                raise NeedsValues  # The write changes a value in the result store.
            self.written.pop(write.target, None)
            self.written[write.target] = value
            self.scope[write.scope] = put(self.scope[write.scope], write.path, value)
        writes_ctx = any(write.scope == "ctx" for write in writes)
        if writes_ctx and not self.program.has_values and (failure := ctx_misfit(self.scope["ctx"])):
            raise _Broken(failure.kind, f'{where} of "{self.run.step}": {failure.message}')

    def _save(self, write: Write, value: JSON, where: str) -> None:
        """Note a value that outlives the execution. Templates read saved.* as of the start, so they do not see it."""
        if failure := saved_misfit(write.target, value):
            raise _Broken(failure.kind, f'{where} of "{self.run.step}": {failure.message}')
        self.written.pop(write.target, None)
        self.written[write.target] = value

    def _weigh(self, target: str, value: JSON, where: str) -> None:
        """Note a value that is in the result store, or belongs there."""
        if target in self.stored:
            self.stored.remove(target)
        try:
            if is_stored(self.program, target, value):
                self.stored.append(target)
        except ValueTooLarge as error:
            raise _Broken(error.failure.kind, f'{where} of "{self.run.step}": {error.failure.message}') from None

    def _token(self, target: str, place: int, event: dict[str, JSON]) -> Token:
        """The input is bound now, so every token has its own (D28); a join binds its input when it fires."""
        step = self.program.steps[target]
        input: dict[str, JSON] = {}
        if not step.join and step.pipeline.source.input:
            seen = {key: self.scope[key] for key in ("workload", "ctx", "saved", "execution_id")}
            title = arc_title(place, self.level)
            input = self._value(step.pipeline.input, f'input of "{target}" on {title}', seen)
            for key, value in input.items():
                self._weigh(f"{target}.{key}", value, title)
        return Token(
            id=token_id(self.run.id, place),
            step=target,
            input=input,
            event=event,
            deadline_at=deadline(step.pipeline, self.at),
        )


def _out_of_reach(pipeline: CompiledPipeline) -> dict[str, JSON]:
    """A template that reads loop data that is too large for the log gets an error, not null (D30)."""
    message = (
        "the results of the loop are too large to be output.data; fold what you need by "
        "loop.spec.policy.reduce, or `resolve` output.ref in the next step"
    )
    values = (*pipeline.picks, *pipeline.failure_picks)
    parts = [part for each in values for part in each.value.projected(truth_only=each.asks).parts]
    return {part.key: error_entry("payload-too-large", message) for part in parts}
