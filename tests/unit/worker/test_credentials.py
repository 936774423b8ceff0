"""Credentials in frames that a worker drives: fetched, masked before rules and storage, missing, on record."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from noetl.adapters.memory.results import MemoryResults
from noetl.clock import SystemClock
from noetl.control.deps import ControlHooks
from noetl.engine import facts
from noetl.engine.moves import RunTask
from noetl.errors import NotFound, Unavailable
from noetl.output import Failure, Output
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import Secret
from noetl.tool import Tools
from noetl.worker.calls import Toolbox
from noetl.worker.keychain import Keychain
from tests.unit.control.houses import Answer, MemoryHouse, run_house

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


def played(body: str, vault: Vault, answer: Answer = echo, *, probe: bool = False) -> MemoryHouse:
    keychain = Keychain(vault, SystemClock())
    hooks = ControlHooks(on_start=(keychain.resolve_for_start,)) if probe else None
    house = MemoryHouse({"t": KEYCHAIN + body}, answer, hooks=hooks, keychain=keychain)

    async def work(house: MemoryHouse) -> None:
        await house.start("e", "t")
        await house.end("e")

    run_house(house, work)
    return house


def done(house: MemoryHouse) -> list[facts.TaskDone]:
    return [told.fact for told in house.told if isinstance(told.fact, facts.TaskDone)]


RETRY = """\
workflow:
- step: start
  tool:
    kind: http
    url: "u?{{ keychain.token }}"
    spec: {policy: {rules: [{when: "{{ output.error.kind == 'credential' }}", then: {do: retry, attempts: 3}}]}}
"""


def test_a_credential_that_is_away_is_a_failure_that_rules_may_retry_d57() -> None:
    house = played(RETRY, Vault(Unavailable('keychain entry "token": away')))
    first, second = done(house)
    failure = Failure(kind="credential", message='keychain entry "token": away', retryable=True)
    assert (first.directive, first.output) == ("retry", Output(status="error", error=failure))
    assert second.output == Output(data={"url": "u?***"})


def test_what_is_stored_is_masked_before_it_is_stored_d20() -> None:
    async def large(called: RunTask) -> Output:
        return Output(data=[f"{called.input['url']} {place}" for place in range(20_000)])

    house = played(
        'workflow: [{step: start, tool: {kind: http, url: "{{ keychain.token }}"}}]', Vault(), large
    )
    [fact] = done(house)
    assert fact.output is not None
    assert fact.output.ref is not None

    async def body(house: MemoryHouse) -> bytes:
        assert fact.output is not None
        assert fact.output.ref is not None
        return await house.results.get(fact.output.ref)

    stored = run_house(house, body)
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
    house = played("workflow: [{step: start, tool: {kind: noop}}]", Vault(), probe=True)
    versions = {"token": "v-token", "other": "v-other"}
    assert facts.Evaluated(keychain=versions) in [told.fact for told in house.told]


def test_a_request_whose_credential_does_not_resolve_is_on_record_and_ends_d65() -> None:
    house = played("workflow: [{step: start}]", Vault(NotFound('keychain entry "token": gone')), probe=True)
    failure = Failure(kind="credential", message='keychain entry "token": gone')
    assert [told.fact for told in house.told][1:] == [
        facts.Evaluated(error=failure),
        facts.Processed(status="error"),
    ]


def test_what_a_tool_says_while_it_works_is_masked_too_d20() -> None:
    found = EntryPoint("http", "tests.unit.worker.test_calls:Talking", "noetl.tools")
    body = KEYCHAIN + 'workflow: [{step: start, tool: {kind: http, url: "{{ keychain.token }}"}}]'
    keychain = Keychain(Vault(), SystemClock())
    house = MemoryHouse({"t": body}, Toolbox(Tools({"http": found}), MemoryResults()), keychain=keychain)

    async def work(house: MemoryHouse) -> None:
        await house.start("e", "t")
        await house.end("e")

    run_house(house, work)
    assert [line.text for line in house.lines] == ["asking ***", "25%"]
