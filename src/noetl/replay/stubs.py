"""Stubs: the answers that a test gives. The first that fits a call answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from noetl.output import JSON, Failure, Output
from noetl.replay.adapter import Answer, MadeCall, with_own_part
from noetl.template import Template, Value

_RETRYABLE_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


class FailureStub(Struct, frozen=True, kw_only=True):
    """How a stubbed call fails."""

    kind: str | None = None  # None: the kind of the task
    message: str | None = None
    status: int | None = None  # of an HTTP response
    retryable: bool | None = None  # None: by status; without one, whether it is a timeout
    details: dict[str, JSON] = {}


class Stub(Struct, frozen=True, kw_only=True):
    call: str  # a step, or `step.task`
    when: Template | bool = True
    output: Value | None = None  # its data
    fail: FailureStub | None = None
    own: Value | None = None  # the tool's own part: {"http": {"status": 201}}
    live: bool = False  # make the call
    title: str = ""  # for messages

    def fits(self, call: MadeCall) -> bool:
        if not call.fits(self.call):
            return False
        return self.when if isinstance(self.when, bool) else self.when.holds(call.scope)


class StubSource:
    """Implements AnswerSource."""

    def __init__(self, stubs: Sequence[Stub]) -> None:
        self._stubs = stubs

    async def answer(self, call: MadeCall) -> Answer | None:
        for stub in self._stubs:
            if stub.fits(call):
                return Answer(None, "live") if stub.live else Answer(_output(stub, call), "stub")
        return None


def _output(stub: Stub, call: MadeCall) -> Output:
    own = {} if stub.own is None else stub.own(call.scope)
    data = None if stub.output is None else stub.output(call.scope)
    if stub.fail is None:
        return with_own_part(Output(data=data, own=own), call)
    fail, kind = stub.fail, stub.fail.kind or call.called.task.kind
    if fail.status is not None:
        own = {**own, "http": {**own.get("http", {}), "status": fail.status}}
    retryable = fail.retryable
    if retryable is None:
        retryable = fail.status in _RETRYABLE_STATUS if fail.status is not None else kind == "timeout"
    message = fail.message or (f"the stub answers with {fail.status}" if fail.status else "the stub fails")
    error = Failure(kind=kind, message=message, retryable=retryable, details=fail.details)
    return with_own_part(Output(status="error", data=data, own=own, error=error), call)
