"""Credentials in frames that a worker drives: fetched, masked before rules and storage, missing, recorded in the log."""

from __future__ import annotations

from noetl.clock import SystemClock
from noetl.control.deps import ControlHooks
from noetl.engine import facts
from noetl.engine.moves import RunTask
from noetl.errors import NotFound, Unavailable
from noetl.output import Failure, Output
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import Secret
from noetl.testing.memory_runtime import MemoryRuntime, RuntimeParts
from noetl.worker.frame_driver import LogLine
from noetl.worker.keychain import Keychain
from tests.unit.control.runtimes import Answer, memory_runtime, run_in
from tests.unit.worker.test_calls import NO_RESPONSE, Talking

KEYCHAIN = "keychain: [{name: token, kind: env}, {name: other, kind: env}]\n"


class Vault:
    """Raises so many errors first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        if self.errors:
            raise self.errors.pop(0)
        return FetchedCredential({"": Secret(f"hunter22-{credential.name}")}, f"v-{credential.name}")


async def echo(called: RunTask) -> Output:
    return Output(data=called.input)


def played(body: str, vault: Vault, answer: Answer = echo, *, probe: bool = False) -> MemoryRuntime:
    keychain = Keychain(vault, SystemClock())
    hooks = ControlHooks(on_start=(keychain.resolve_for_start,) if probe else ())
    parts = RuntimeParts(keychain=keychain, hooks=hooks)
    runtime = memory_runtime({"t": KEYCHAIN + body}, answer, parts=parts)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    return runtime


def done(runtime: MemoryRuntime) -> list[facts.TaskDone]:
    return [event.fact for event in runtime.events if isinstance(event.fact, facts.TaskDone)]


RETRY = """\
workflow:
- step: start
  tool:
    kind: http
    url: "u?{{ keychain.token }}"
    spec: {policy: {rules: [{when: "{{ output.error.kind == 'credential' }}", then: {do: retry, attempts: 3}}]}}
"""


def test_a_credential_that_is_away_is_a_failure_that_rules_may_retry_d57() -> None:
    runtime = played(RETRY, Vault(Unavailable('keychain entry "token": away')))
    first, second = done(runtime)
    failure = Failure(kind="credential", message='keychain entry "token": away', retryable=True)
    assert (first.directive, first.output) == ("retry", Output(status="error", error=failure, own=NO_RESPONSE))
    assert second.output == Output(data={"url": "u?***"})


def test_what_is_stored_is_masked_before_it_is_stored_d20() -> None:
    async def large(called: RunTask) -> Output:
        return Output(data=[f"{called.input['url']} {place}" for place in range(20_000)])

    runtime = played('workflow: [{step: start, tool: {kind: http, url: "{{ keychain.token }}"}}]', Vault(), large)
    [fact] = done(runtime)
    assert fact.output is not None
    assert fact.output.ref is not None

    async def body(runtime: MemoryRuntime) -> bytes:
        assert fact.output is not None
        assert fact.output.ref is not None
        return await runtime.results.get(fact.output.ref)

    stored = run_in(runtime, body)
    assert b"hunter22" not in stored
    assert stored.count(b"***") == 20_000


def test_rules_see_what_is_masked_d20() -> None:
    body = """\
workflow:
- step: start
  tool: {kind: http, url: "{{ keychain.token }}", set: {ctx.seen: "{{ output.data.url }}"}}
"""
    [fact] = done(played(body, Vault()))
    assert fact.set == {"ctx.seen": "***"}


def test_versions_go_on_record_with_the_request_and_values_do_not() -> None:
    runtime = played("workflow: [{step: start, tool: {kind: noop}}]", Vault(), probe=True)
    versions = {"token": "v-token", "other": "v-other"}
    assert facts.Evaluated(keychain=versions) in [event.fact for event in runtime.events]


def test_a_request_whose_credential_does_not_resolve_is_on_record_and_ends_d65() -> None:
    runtime = played("workflow: [{step: start}]", Vault(NotFound('keychain entry "token": gone')), probe=True)
    failure = Failure(kind="credential", message='keychain entry "token": gone')
    assert [event.fact for event in runtime.events][1:] == [
        facts.Evaluated(error=failure),
        facts.Processed(status="error"),
    ]


def test_what_a_tool_says_while_it_works_is_masked_too_d20() -> None:
    body = KEYCHAIN + 'workflow: [{step: start, tool: {kind: http, url: "{{ keychain.token }}"}}]'
    lines: list[LogLine] = []
    parts = RuntimeParts(keychain=Keychain(Vault(), SystemClock()), on_log_line=[lines.append])
    runtime = memory_runtime({"t": body}, {"http": Talking}, parts=parts)

    async def work(runtime: MemoryRuntime) -> None:
        await runtime.start("t", id="e")
        await runtime.end("e")

    run_in(runtime, work)
    assert [said.text for said in lines] == ["asking ***", "25%"]
