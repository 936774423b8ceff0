"""`auth` of `http`: the header, and one renewal after a refusal (D57, D84)."""

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
    """A credential with a new value after each renewal, until there are no more."""

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


class Recorder:
    """Records the requests, and sends these responses in turn."""

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
    recorder = Recorder((200, {"a": 1}))
    assert sent(recorder.handle, Holder(kind, {"": "hunter22"})).data == {"a": 1}
    assert recorder.seen == [("GET", "Bearer hunter22")]


def test_user_and_password_are_basic_auth() -> None:
    recorder = Recorder((200, {}))
    sent(recorder.handle, Holder("basic", {"user": "ann", "password": "p:w ü"}))
    assert recorder.seen == [("GET", "Basic YW5uOnA6dyDDvA==")]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_after_a_401_the_credential_is_renewed_and_the_request_repeated(method: str) -> None:
    recorder, holder = (
        Recorder((401, {}), (200, {"a": 1})),
        Holder("bearer", {"": "first"}, {"": "second"}),
    )
    assert sent(recorder.handle, holder, method=method).data == {"a": 1}
    assert recorder.seen == [(method, "Bearer first"), (method, "Bearer second")]


def test_a_second_401_is_the_result() -> None:
    recorder, holder = (
        Recorder((401, {"n": 1})),
        Holder("bearer", {"": "first"}, {"": "second"}, {"": "third"}),
    )
    output = sent(recorder.handle, holder)
    assert (output.status, output.own["http"]["status"], len(recorder.seen)) == ("error", 401, 2)


def test_a_401_without_auth_explains_how_to_add_a_credential() -> None:
    async def work(recorder: Recorder) -> Output:
        http = HttpTool()
        try:
            async with server(recorder.handle) as at:
                return await http.run(HttpInput(url=f"{at}/items"), call())
        finally:
            await http.close()

    refused, missing = (asyncio.run(work(Recorder((status, {})))).error for status in (401, 404))
    assert refused is not None
    assert missing is not None
    assert refused.message.endswith("; the task has no `auth`: name a keychain entry there")
    assert "auth" not in missing.message


def test_an_unchanged_credential_is_not_sent_again() -> None:
    recorder, holder = Recorder((401, {})), Holder("bearer", {"": "same"}, {"": "same"})
    assert sent(recorder.handle, holder).own["http"]["status"] == 401
    assert (len(recorder.seen), holder.renewed) == (1, 1)


def test_a_failed_renewal_is_an_error_of_kind_credential() -> None:
    output = sent(Recorder((401, {})).handle, Holder("bearer", {"": "first"}))
    assert output.error is not None
    assert (output.error.kind, output.error.message) == ("credential", 'keychain entry "api": away')


def test_other_statuses_do_not_renew() -> None:
    recorder, holder = Recorder((403, {})), Holder("bearer", {"": "first"}, {"": "second"})
    sent(recorder.handle, holder)
    assert (len(recorder.seen), holder.renewed) == (1, 0)


EXPIRED: dict[str, JSON] = {"auth": {"expired_when": {"path": "$.error.code", "equals": [401, "token_expired"]}}}


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
def test_a_body_can_report_an_expired_credential(first: JSON, times: int) -> None:
    recorder, holder = (
        Recorder((200, first), (200, {"a": 1})),
        Holder("bearer", {"": "first"}, {"": "second"}),
    )
    output = sent(recorder.handle, holder, EXPIRED)
    assert output.data == ({"a": 1} if times == 2 else first)
    assert len(recorder.seen) == times


@pytest.mark.parametrize(
    ("holder", "fields", "message"),
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
def test_an_unusable_credential_is_refused_without_its_value(
    holder: Holder, fields: dict[str, JSON], message: str
) -> None:
    recorder = Recorder((200, {}))
    output = sent(recorder.handle, holder, **fields)
    assert output.error is not None
    assert output.error.kind == "input"
    assert message in output.error.message
    assert "hunter22" not in output.error.message
    assert recorder.seen == []


def test_another_origin_receives_no_credential() -> None:
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
