"""`auth` of `http`: what it sends, and one renewal when it is refused (D57, D84)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from aiohttp import web

from noetl.errors import Unavailable
from noetl.output import JSON, Output
from noetl.secret import Secret
from noetl.tool import Auth
from noetl.tools.http.tool import HttpInput, HttpTool
from tests.unit.tools.calls import Handler, call, server


class Holder:
    """A credential whose values come one after the other; behind the last there is none."""

    def __init__(self, kind: str, *values: dict[str, str]) -> None:
        self.kind = kind
        self.values = list(values)
        self.renewed = 0

    def auth(self) -> Auth:
        given = self.values[min(self.renewed, len(self.values) - 1)]
        return Auth("api", self.kind, {field: Secret(value) for field, value in given.items()}, self.renew)

    async def renew(self) -> Auth:
        self.renewed += 1
        if self.renewed >= len(self.values):
            raise Unavailable('keychain entry "api": away')
        return self.auth()


class Door:
    """Notes what it was sent, and answers in turn."""

    def __init__(self, *answers: tuple[int, JSON]) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[str, str | None]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.headers.get("Authorization")))
        status, body = self.answers[min(len(self.seen), len(self.answers)) - 1]
        return web.json_response(body, status=status)


def sent(handler: Handler, holder: Holder, spec: dict[str, JSON] | None = None, **fields: JSON) -> Output:
    async def work() -> Output:
        http = HttpTool()
        try:
            async with server(handler) as at:
                request = HttpInput(**{"url": f"{at}/items", **fields})
                return await http.run(request, call(spec=spec)._replace(auth=holder.auth()))
        finally:
            await http.close()

    return asyncio.run(work())


@pytest.mark.parametrize("kind", ["bearer", "env", "file", "stored", "secret_manager", "oauth2_client"])
def test_a_single_value_is_a_bearer_token(kind: str) -> None:
    door = Door((200, {"a": 1}))
    assert sent(door.handle, Holder(kind, {"": "hunter22"})).data == {"a": 1}
    assert door.seen == [("GET", "Bearer hunter22")]


def test_user_and_password_are_basic() -> None:
    door = Door((200, {}))
    sent(door.handle, Holder("basic", {"user": "ann", "password": "p:w ü"}))
    assert door.seen == [("GET", "Basic YW5uOnA6dyDDvA==")]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_after_a_401_it_is_renewed_once_and_sent_once_more_whatever_the_verb(method: str) -> None:
    door, holder = Door((401, {}), (200, {"a": 1})), Holder("bearer", {"": "first"}, {"": "second"})
    assert sent(door.handle, holder, method=method).data == {"a": 1}
    assert door.seen == [(method, "Bearer first"), (method, "Bearer second")]


def test_a_second_401_is_the_answer() -> None:
    door, holder = Door((401, {"n": 1})), Holder("bearer", {"": "first"}, {"": "second"}, {"": "third"})
    output = sent(door.handle, holder)
    assert (output.status, output.own["http"]["status"], len(door.seen)) == ("error", 401, 2)


def test_a_task_without_a_credential_is_told_that_it_has_none() -> None:
    async def work(door: Door) -> Output:
        http = HttpTool()
        try:
            async with server(door.handle) as at:
                return await http.run(HttpInput(url=f"{at}/items"), call())
        finally:
            await http.close()

    refused, missing = (asyncio.run(work(Door((status, {})))).error for status in (401, 404))
    assert refused is not None
    assert missing is not None
    assert refused.message.endswith("; the task has no `auth`: name a keychain entry there")
    assert "auth" not in missing.message


def test_the_same_value_again_is_not_sent_again() -> None:
    door, holder = Door((401, {})), Holder("bearer", {"": "same"}, {"": "same"})
    assert sent(door.handle, holder).own["http"]["status"] == 401
    assert (len(door.seen), holder.renewed) == (1, 1)


def test_a_credential_that_can_not_be_renewed_is_the_failure() -> None:
    output = sent(Door((401, {})).handle, Holder("bearer", {"": "first"}))
    assert output.error is not None
    assert (output.error.kind, output.error.message) == ("credential", 'keychain entry "api": away')


def test_other_refusals_renew_nothing() -> None:
    door, holder = Door((403, {})), Holder("bearer", {"": "first"}, {"": "second"})
    sent(door.handle, holder)
    assert (len(door.seen), holder.renewed) == (1, 0)


EXPIRED: dict[str, JSON] = {
    "auth": {"expired_when": {"path": "$.error.code", "equals": [401, "token_expired"]}}
}


@pytest.mark.parametrize(
    ("first", "times"),
    [
        ({"error": {"code": 401}}, 2),
        ({"error": {"code": "token_expired"}}, 2),
        ({"error": {"code": 500}}, 1),
        ({"error": None}, 1),
        ({"rows": []}, 1),
    ],
)
def test_a_body_may_say_that_a_credential_has_expired(first: JSON, times: int) -> None:
    door, holder = Door((200, first), (200, {"a": 1})), Holder("bearer", {"": "first"}, {"": "second"})
    output = sent(door.handle, holder, EXPIRED)
    assert output.data == ({"a": 1} if times == 2 else first)
    assert len(door.seen) == times


@pytest.mark.parametrize(
    ("holder", "fields", "words"),
    [
        (Holder("postgres_credential", {"dsn": "hunter22"}), {}, "which HTTP requests cannot use"),
        (Holder("bearer", {"": "hunter22\nX: y"}), {}, "contains a line break"),
        (
            Holder("bearer", {"": "hunter22"}),
            {"headers": {"authorization": "x"}},
            "both `auth` and `headers` set",
        ),
    ],
    ids=["kind", "line break", "two headers"],
)
def test_what_can_be_no_header_is_refused_without_its_value(
    holder: Holder, fields: dict[str, JSON], words: str
) -> None:
    door = Door((200, {}))
    output = sent(door.handle, holder, **fields)
    assert output.error is not None
    assert output.error.kind == "input"
    assert words in output.error.message
    assert "hunter22" not in output.error.message
    assert door.seen == []


def test_another_origin_gets_no_credential() -> None:
    seen: list[str | None] = []

    async def other(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.json_response({})

    async def work() -> Sequence[str | None]:
        http = HttpTool()
        try:
            async with server(other) as there:

                async def here(request: web.Request) -> web.StreamResponse:
                    seen.append(request.headers.get("Authorization"))
                    raise web.HTTPFound(there)

                async with server(here) as at:
                    holder = Holder("bearer", {"": "hunter22"})
                    await http.run(HttpInput(url=at), call()._replace(auth=holder.auth()))
        finally:
            await http.close()
        return seen

    assert asyncio.run(work()) == ["Bearer hunter22", None]
