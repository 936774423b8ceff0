"""A run has ended: step `set`, the arcs that are asked, the tokens that they make (D28, D37–D41, D74)."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from noetl.engine import facts
from noetl.engine.apply import put
from noetl.engine.facts import Token
from noetl.engine.scopes import base_scope, moment
from noetl.engine.state import Run, State
from noetl.ids import token_id
from noetl.net.program import Arc, Program, Step, Write
from noetl.net.template import Template, TemplateError
from noetl.output import JSON, Failure
from noetl.playbook.model import END


class _NoSuchStep(Exception):
    """A dynamic target that is none (D41)."""


def route(program: Program, state: State, run: Run, at: datetime) -> facts.NextEvaluated:
    step = program.steps[run.step]
    router = _Router(program, state, run, at)
    try:
        return router.route(step)
    except TemplateError as error:
        failure = Failure(kind="template", message=str(error))
        return facts.NextEvaluated(run=run.id, set=router.written, asked=tuple(router.asked), error=failure)
    except _NoSuchStep as error:
        failure = Failure(kind="routing", message=str(error))
        return facts.NextEvaluated(run=run.id, set=router.written, asked=tuple(router.asked), error=failure)


class _Taken(NamedTuple):
    target: str
    place: int


class _Router:
    """One evaluation; its scope follows what is written on the way."""

    def __init__(self, program: Program, state: State, run: Run, at: datetime) -> None:
        assert run.output is not None
        self.program, self.run, self.at = program, run, at
        self.written: dict[str, JSON] = {}
        self.asked: list[tuple[int, bool]] = []
        output = run.output.view()
        if run.picked is not None:
            output["data"] = _rebuilt(run.picked)
        self.event: dict[str, JSON] = {
            "name": run.event,
            "status": run.output.status,
            "step": run.step,
            "run": run.id,
        }
        if run.output.error is not None:
            self.event["error"] = run.output.error.view()
        self.scope = base_scope(state, run) | {"output": output}

    def route(self, step: Step) -> facts.NextEvaluated:
        assert self.run.output is not None
        ok = self.run.event != "step.failed"
        if ok:
            self._write(step.pipeline.set)
        self.scope["event"] = self.event
        tokens: list[Token] = []
        ended = 0
        for place, arc in enumerate(step.arcs):
            if not ok and not arc.takes_failure:
                continue
            holds = self._holds(arc, place)
            self.asked.append((place, holds))
            if not holds:
                continue
            target = self._target(arc, place)
            self._write(arc.set)
            if target == END and END not in self.program.steps:
                ended += 1
            else:
                tokens.append(self._token(target, place))
            if not step.inclusive:
                break
        return facts.NextEvaluated(
            run=self.run.id, set=self.written, asked=tuple(self.asked), tokens=tuple(tokens), ended=ended
        )

    def _holds(self, arc: Arc, place: int) -> bool:
        if isinstance(arc.when, Template):
            return arc.when.holds(self.scope, moment(self.at, f"{self.run.id}>{place}"))
        return arc.when

    def _target(self, arc: Arc, place: int) -> str:
        if isinstance(arc.target, str):
            return arc.target
        target = arc.target(self.scope, moment(self.at, f"{self.run.id}>{place}"))
        known = target in self.program.steps or target == END
        if (
            not isinstance(target, str)
            or not known
            or (arc.targets is not None and target not in arc.targets)
        ):
            raise _NoSuchStep(f'the target "{target}" of arc {place} is not a step that it may lead to')
        return target

    def _write(self, writes: tuple[Write, ...]) -> None:
        values = [
            (write, write.value(self.scope, moment(self.at, f"{self.run.id}/{write.target}")))
            for write in writes
        ]
        for write, value in values:
            self.written.pop(write.target, None)
            self.written[write.target] = value
            self.scope[write.scope] = put(self.scope[write.scope], write.path, value)

    def _token(self, target: str, place: int) -> Token:
        """Its input is bound now, so every token has its own (D28); a join binds its own when it fires."""
        step = self.program.steps[target]
        input: dict[str, JSON] = {}
        if not step.join:
            seen = {key: self.scope[key] for key in ("workload", "ctx", "execution_id")}
            input = step.pipeline.input(seen, moment(self.at, f"{self.run.id}>{place}/input"))
        return Token(id=token_id(self.run.id, place), step=target, input=input, event=self.event)


def _rebuilt(picked: dict[str, JSON]) -> JSON:
    """The picked parts of the data, where they stood."""
    if "" in picked:
        return picked[""]
    data: dict[str, JSON] = {}
    for path, value in picked.items():
        data = put(data, tuple(path.split(".")), value)
    return data
