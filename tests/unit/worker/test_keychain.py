"""Credentials in a worker: one fetch for all, kept for a while, renewed when refused, masked, probed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from noetl.checks.checker import check
from noetl.engine.commands import Start
from noetl.engine.moves import Decided, FramePlace, RunTask, Work
from noetl.engine.pipeline import next_move
from noetl.engine.state import Frame
from noetl.errors import NoetlError, NotFound, Unavailable
from noetl.net.program import Program
from noetl.output import Failure, Output
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import Secret
from noetl.testing import FakeClock
from noetl.tool import Auth
from noetl.worker.keychain import TTL_S, FrameCredentials, Keychain, call_credential, hidden
from tests.playbooks import HEAD, kinds

AT = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = Credential(name="token", kind="env", at=())
LOGIN = Credential(name="login", kind="basic", fields={"user": "ann", "password": {"env": "P"}}, at=())


class Vault:
    """Gives a new value each time, and waits for `gate` if it is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.expires_s: float | None = None
        self.gate: asyncio.Event | None = None
        self.error: Exception | None = None
        self.errors: dict[str, Exception] = {}  # by entry

    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
        self.asked.append((credential.name, fresh))
        if self.gate is not None:
            await self.gate.wait()
        if error := self.errors.get(credential.name, self.error):
            raise error
        number = len(self.asked)
        if credential.kind == "basic":
            values = {"user": Secret("ann"), "password": Secret(f"password-{number}")}
        else:
            values = {"": Secret(f"{credential.name}-value-{number}")}
        return FetchedCredential(values, f"v{number}", self.expires_s)


class Desk:
    def __init__(self) -> None:
        self.vault, self.clock = Vault(), FakeClock()
        self.keychain = Keychain(self.vault, self.clock)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def revealed(fetched: FetchedCredential | Auth) -> dict[str, str]:
    return {field: secret.reveal() for field, secret in fetched.values.items()}


@pytest.mark.parametrize(("expires_s", "kept_s"), [(None, TTL_S), (60.0, 60.0), (86_400.0, TTL_S)])
def test_a_value_is_kept_until_it_expires_or_for_five_minutes_d57(expires_s: float | None, kept_s: float) -> None:
    async def work() -> None:
        desk = Desk()
        desk.vault.expires_s = expires_s
        await desk.keychain.get(TOKEN)
        desk.clock.advance(kept_s - 0.5)
        assert revealed(await desk.keychain.get(TOKEN)) == {"": "token-value-1"}
        desk.clock.advance(0.5)
        assert revealed(await desk.keychain.get(TOKEN)) == {"": "token-value-2"}
        assert desk.vault.asked == [("token", False)] * 2

    run(work())


def test_however_many_wait_one_fetch_is_made_also_when_the_first_gives_up() -> None:
    async def work() -> None:
        desk = Desk()
        desk.vault.gate = asyncio.Event()
        waiting = [asyncio.ensure_future(desk.keychain.get(TOKEN)) for _ in range(5)]
        while not desk.vault.asked:
            await desk.clock.sleep(0)
        waiting[0].cancel()
        await desk.clock.sleep(0)
        desk.vault.gate.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        assert [revealed(each) for each in found[1:] if isinstance(each, FetchedCredential)] == [
            {"": "token-value-1"}
        ] * 4
        assert len(desk.vault.asked) == 1

    run(work())


def test_of_all_that_were_refused_with_the_same_version_one_renews() -> None:
    async def work() -> None:
        desk = Desk()
        signed_in = [await desk.keychain.auth(TOKEN) for _ in range(4)]
        renewed = await asyncio.gather(*(each.renew() for each in signed_in))
        late = await signed_in[0].renew()
        assert [revealed(each) for each in (*renewed, late)] == [{"": "token-value-2"}] * 5
        assert desk.vault.asked == [("token", False), ("token", True)]
        assert revealed(await renewed[0].renew()) == {"": "token-value-3"}

    run(work())


def test_entries_of_the_same_name_in_two_playbooks_are_two() -> None:
    async def work() -> None:
        desk = Desk()
        other = Credential(name="token", kind="env", fields={"variable": "OTHER"}, at=("keychain", 3))
        await desk.keychain.get(TOKEN)
        assert revealed(await desk.keychain.get(other)) == {"": "token-value-2"}
        assert revealed(await desk.keychain.get(Credential(name="token", kind="env", at=("x",)))) == {
            "": "token-value-1"
        }

    run(work())


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (NotFound("no such thing"), "no such thing"),
        (Unavailable("it is unreachable"), "it is unreachable"),
        (ValueError("hunter22"), 'keychain entry "token" cannot be read: ValueError'),
    ],
)
def test_a_fetch_that_failed_is_tried_again_by_the_next_who_asks(raised: Exception, told: str) -> None:
    async def work() -> None:
        desk = Desk()
        desk.vault.error = raised
        with pytest.raises(NoetlError) as caught:
            await desk.keychain.get(TOKEN)
        assert str(caught.value) == told
        desk.vault.error = None
        assert revealed(await desk.keychain.get(TOKEN)) == {"": "token-value-2"}

    run(work())


def test_a_mask_hides_what_an_entry_gave_before_it_was_renewed_too() -> None:
    async def work() -> None:
        desk = Desk()
        first = await desk.keychain.auth(TOKEN)
        await first.renew()
        text = desk.keychain.mask([TOKEN]).text("token-value-1 token-value-2 token-value-3")
        assert text == "*** *** token-value-3"
        assert desk.keychain.mask([TOKEN]) is desk.keychain.mask([TOKEN])

    run(work())


@pytest.mark.parametrize(
    ("fields", "masked"),
    [
        ({"user": "annette", "password": "p"}, "annette *** dbhost 5432"),
        ({"user": {"env": "U"}, "password": "p"}, "*** *** dbhost 5432"),
    ],
)
def test_where_a_database_is_stays_visible_and_a_user_unless_it_came_from_elsewhere(
    fields: dict[str, Any], masked: str
) -> None:
    values = {"user": "annette", "password": "hunter22", "host": "dbhost", "port": "5432"}

    class Given:
        async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
            return FetchedCredential({field: Secret(value) for field, value in values.items()}, "1")

    async def work() -> None:
        keychain = Keychain(Given(), FakeClock())
        entry = Credential(name="pg", kind="postgres_credential", fields=fields, at=())
        await keychain.get(entry)
        assert keychain.mask([entry]).text("annette hunter22 dbhost 5432") == masked

    run(work())


# Programs and frames


def program(tool: str) -> Program:
    text = (
        HEAD
        + "keychain:\n- {name: token, kind: env}\n- {name: login, kind: basic, user: ann, password: {env: P}}\n"
        + f"workflow:\n- step: start\n  tool: {tool}\n"
    )
    program = check(text, kinds(), "t.yaml").program
    assert program is not None
    return program._replace(digest="d")


def frame(tool: str, **fields: Any) -> Work:
    compiled = program(tool)
    place = FramePlace("e", {}, {}, None, keychain=compiled.playbook.keychain)
    return Work(compiled.steps["start"].pipeline, Frame(id="start#1", **fields), place)


def test_the_versions_of_all_entries_go_on_record_with_the_request_d57() -> None:
    desk = Desk()
    start = run(desk.keychain.resolve_for_start("e", program("{kind: noop}"), Start(workload={"a": 1})))
    assert start == Start(workload={"a": 1}, keychain={"token": "v1", "login": "v2"})


def test_an_entry_that_does_not_resolve_refuses_the_request_by_its_name_d65() -> None:
    desk = Desk()
    desk.vault.errors["token"] = NotFound('keychain entry "token": the environment variable "token" is not set')
    start = run(desk.keychain.resolve_for_start("e", program("{kind: noop}"), Start()))
    message = 'keychain entry "token": the environment variable "token" is not set'
    assert start.error == Failure(kind="credential", message=message)
    refused = Start(error=Failure(kind="problems", message="p"))
    assert run(desk.keychain.resolve_for_start("e", program("{kind: noop}"), refused)) is refused


def test_all_entries_that_do_not_resolve_are_reported_at_once_d97() -> None:
    desk = Desk()
    desk.vault.errors = {"token": NotFound("no token"), "login": Unavailable("no login")}
    start = run(desk.keychain.resolve_for_start("e", program("{kind: noop}"), Start()))
    message = "2 keychain entries do not resolve: no token; no login"
    assert start.error == Failure(kind="credential", message=message)
    desk.vault.errors["token"] = Unavailable("no token")
    again = run(desk.keychain.resolve_for_start("e", program("{kind: noop}"), Start()))
    assert again.error == Failure(kind="credential", message=message, retryable=True)


@pytest.mark.parametrize(
    ("fields", "masked"),
    [
        ({"user": "ann4", "password": {"env": "P"}}, {"pass-word"}),
        ({"user": {"env": "U"}, "password": {"env": "P"}}, {"ann4", "pass-word"}),
        ({}, {"ann4", "pass-word"}),
    ],
)
def test_a_user_name_is_masked_unless_the_playbook_contains_it_d97(fields: dict[str, Any], masked: set[str]) -> None:
    credential = Credential(name="login", kind="basic", fields=fields, at=())
    values = {"user": Secret("ann4"), "password": Secret("pass-word")}
    assert set(hidden(credential, FetchedCredential(values, "v1"))) == masked


def test_a_task_is_given_what_its_templates_read_and_nothing_else() -> None:
    async def work() -> None:
        desk = Desk()
        work = frame('{kind: http, url: x, headers: {a: "{{ keychain.token }} {{ keychain.login.password }}"}}')
        ready = await FrameCredentials(desk.keychain).resolve(work, waits=False)
        assert ready.values == {
            "token": "token-value-1",
            "login": {"user": "ann", "password": "password-2"},
        }
        move = next_move(work, AT, ready.values)
        assert isinstance(move, RunTask)
        assert move.input["headers"] == {"a": "token-value-1 password-2"}
        assert await FrameCredentials(desk.keychain).resolve(frame("{kind: noop}"), waits=False) == (
            None,
            None,
        )

    run(work())


def test_nothing_is_fetched_for_a_frame_that_waits() -> None:
    async def work() -> None:
        desk = Desk()
        asking = frame('{kind: http, url: "{{ keychain.token }}"}')
        assert await FrameCredentials(desk.keychain).resolve(asking, waits=True) == (None, None)
        assert desk.vault.asked == []

    run(work())


def test_auth_is_fetched_before_the_call_and_is_no_value_for_templates() -> None:
    async def work() -> None:
        desk = Desk()
        asking = frame("{kind: http, auth: login, url: x}")
        assert await FrameCredentials(desk.keychain).resolve(asking, waits=False) == (None, None)
        assert desk.vault.asked == [("login", False)]
        move = next_move(asking, AT)
        assert isinstance(move, RunTask)
        entry = call_credential(move)
        assert entry is not None
        assert entry.name == "login"

    run(work())


def test_a_credential_that_is_gone_fails_the_task_and_names_the_entry_d57() -> None:
    async def work() -> None:
        desk = Desk()
        desk.vault.error = Unavailable('keychain entry "login": away')
        asking = frame('{kind: http, url: "{{ keychain.login.password }}"}')
        keys = FrameCredentials(desk.keychain)
        ready = await keys.resolve(asking, waits=False)
        failure = Failure(kind="credential", message='keychain entry "login": away', retryable=True)
        assert ready.missing == Output(status="error", error=failure)
        assert isinstance(next_move(asking, AT, ready.values), RunTask)
        parsing = frame('{kind: http, url: "{{ (keychain.token | fromjson).url }}"}')
        ready = await keys.resolve(parsing, waits=False)
        move = next_move(parsing, AT, ready.values)
        assert isinstance(move, Decided)
        fact = keys.mask_fact(move.fact, ready.missing)
        assert (fact.output, fact.error, fact.directive) == (ready.missing, None, "fail")

    run(work())


def test_a_task_that_its_rules_skip_is_skipped_without_its_credential() -> None:
    async def work() -> None:
        desk = Desk()
        desk.vault.error = NotFound("gone")
        rules = "spec: {policy: {rules: [{when: true, then: {do: skip}}]}}"
        asking = frame(f'{{kind: http, url: "{{{{ keychain.token }}}}", {rules}}}')
        keys = FrameCredentials(desk.keychain)
        ready = await keys.resolve(asking, waits=False)
        move = next_move(asking, AT, ready.values)
        assert isinstance(move, Decided)
        assert keys.mask_fact(move.fact, ready.missing).status == "skipped"

    run(work())


def called(work: Work, values: Any) -> RunTask:
    move = next_move(work, AT, values)
    assert isinstance(move, RunTask)
    return move


def test_what_the_frame_has_used_is_masked_in_later_tasks_too() -> None:
    async def work() -> None:
        desk = Desk()
        tasks = '[{kind: http, url: "{{ keychain.token }}"}, {kind: noop}]'
        asking = frame(tasks)
        keys = FrameCredentials(desk.keychain)
        ready = await keys.resolve(asking, waits=False)
        assert keys.mask_output(called(asking, ready.values), Output(data="token-value-1")).data == "***"
        asking.frame.pc, asking.frame.calls = 1, 1
        ready = await keys.resolve(asking, waits=False)
        assert keys.mask_output(called(asking, ready.values), Output(data="token-value-1")).data == "***"

    run(work())


def test_a_frame_that_someone_else_began_masks_what_its_tasks_may_have_used_d20() -> None:
    async def work() -> None:
        desk = Desk()
        asking = frame('[{kind: http, url: "{{ keychain.token }}"}, {kind: noop}]', pc=1, calls=1)
        keys = FrameCredentials(desk.keychain)
        ready = await keys.resolve(asking, waits=False)
        assert keys.mask_output(called(asking, ready.values), Output(data="token-value-1")).data == "***"
        gone = Desk()
        gone.vault.error = NotFound("gone")
        assert await FrameCredentials(gone.keychain).resolve(asking, waits=False) == (None, None)

    run(work())


@pytest.mark.parametrize(
    "first",
    [
        "{kind: transfer, source: {kind: postgres, auth: token, query: SELECT 1}, target: {kind: object, url: a.csv}}",
        "{kind: transfer, source: {kind: object, url: a.csv}, target: {kind: postgres, auth: token, table: t}}",
        "{kind: secrets, input: {name: token}}",
        '{kind: resolve, ref: "{{ ctx.rows_ref }}"}',  # the Ref may name any entry
    ],
)
def test_so_does_one_whose_tasks_name_their_entries_in_other_ways_d20(first: str) -> None:
    async def work() -> None:
        desk = Desk()
        asking = frame(f"[{first}, {{kind: noop}}]", pc=1, calls=1)
        keys = FrameCredentials(desk.keychain)
        ready = await keys.resolve(asking, waits=False)
        assert keys.mask_output(called(asking, ready.values), Output(data="token-value-1")).data == "***"

    run(work())


def test_after_a_401_the_next_attempt_reads_a_fresh_value() -> None:
    async def work() -> None:
        desk = Desk()
        asking = frame('{kind: http, url: "{{ keychain.token }}"}')
        keys = FrameCredentials(desk.keychain)
        ready = await keys.resolve(asking, waits=False)
        keys.mask_output(called(asking, ready.values), Output(status="error", own={"http": {"status": 401}}))
        again = await keys.resolve(asking, waits=False)
        assert again.values == {"token": "token-value-2"}
        assert desk.vault.asked == [("token", False), ("token", True)]

    run(work())


def test_without_a_keychain_nothing_is_fetched_and_nothing_is_masked() -> None:
    async def work() -> None:
        keys = FrameCredentials(None)
        asking = frame("{kind: noop}")
        assert await keys.resolve(asking, waits=False) == (None, None)
        output = Output(data="x")
        assert keys.mask_output(called(asking, None), output) is output

    run(work())


def test_a_message_of_a_template_is_masked() -> None:
    async def work() -> None:
        desk = Desk()
        asking = frame('{kind: http, url: "{{ keychain.token }}"}')
        keys = FrameCredentials(desk.keychain)
        ready = await keys.resolve(asking, waits=False)
        asking.pipeline.tasks[0]
        broken = next_move(frame('{kind: http, url: "{{ keychain.token.no }}"}'), AT, ready.values)
        assert isinstance(broken, Decided)
        failure = Failure(kind="template", message="it holds token-value-1")
        fact = msgspec.structs.replace(broken.fact, error=failure)
        told = keys.mask_fact(fact, None).error
        assert told == Failure(kind="template", message="it holds ***")

    run(work())
