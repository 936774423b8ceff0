"""The `nats` tool on a real server: messages, requests, keys, and each way to fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.msg import Msg
from nats.js.api import KeyValueConfig, StreamConfig

from noetl.output import JSON, Output
from noetl.secret import Secret
from noetl.tool import Auth, Call
from noetl.tools.nats.connection import CONNECTIONS_MAX
from noetl.tools.nats.tool import NatsInput, NatsTool
from tests.ports import free_port
from tests.services_nats import NatsServer, running_nats
from tests.services_nats_keys import Nkey, new_key, with_nkey, with_operator
from tests.unit.tools.calls import call

# A busy machine may not log in within the 2 s that NATS gives: the failure would be a timeout, and not a refusal.
LIMITED = """
authorization { timeout: 60, users: [
  { user: ann, password: hunter22 }
  { user: eve, password: hunter23, permissions: { publish: ["open", "_INBOX.>"], subscribe: ["open"] } }
] }
"""

ACCOUNT, USER = (Nkey(kind, Ed25519PrivateKey.from_private_bytes(bytes(32))) for kind in ("account", "user"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with running_nats(tmp_path_factory.mktemp("limited"), LIMITED) as running:
        yield running


def called(url: str, renewed: str = "", key: str = "e1/start#1/1") -> Call:
    async def renew() -> Auth:
        return auth._replace(values={"url": Secret(renewed or url)})

    auth = Auth("broker", "nats_credential", {"url": Secret(url)}, renew)
    return call()._replace(auth=auth, key=key)


@asynccontextmanager
async def tool_of(**policy: JSON) -> AsyncIterator[NatsTool]:
    tool = NatsTool(**policy)
    try:
        async with asyncio.timeout(60):
            yield tool
    finally:
        await tool.close()


def once(url: str, input: NatsInput, renewed: str = "", **policy: JSON) -> Output:
    async def work() -> Output:
        async with tool_of(**policy) as tool:
            return await tool.run(input, called(url, renewed))

    return asyncio.run(work())


def code_of(output: Output) -> tuple[JSON, bool]:
    assert output.error is not None
    assert output.error.kind == "nats"
    assert output.own["nats"]["code"] == output.error.details["code"]
    return output.own["nats"]["code"], output.error.retryable


def test_a_published_message_arrives_with_its_headers(server: NatsServer) -> None:
    async def work() -> None:
        plain = await nats.connect(server.url)
        listening = await plain.subscribe("orders.>")
        await plain.flush()
        async with tool_of() as tool:
            asked = NatsInput(publish="orders.created", json={"id": 7}, headers={"Trace": "t-1"})
            output = await tool.run(asked, called(server.url))
            received = await listening.next_msg(10)
        await plain.close()
        assert output.data == {"subject": "orders.created", "bytes": 8}
        assert (received.data, received.headers) == (b'{"id":7}', {"Trace": "t-1"})

    asyncio.run(work())


def test_a_repeated_call_with_ack_stores_its_message_once(server: NatsServer) -> None:
    async def work() -> None:
        plain = await nats.connect(server.url)
        await plain.jetstream().add_stream(StreamConfig(name="BILLS", subjects=["bills.*"]))
        asked = NatsInput(publish="bills.new", text="one", ack=True)
        async with tool_of() as tool:
            own = [(await tool.run(asked, called(server.url, key=key))).own["nats"] for key in ("a/1", "a/1", "a/2")]
        info = await plain.jetstream().stream_info("BILLS")
        await plain.close()
        assert [(each["stream"], each["sequence"], each["duplicate"]) for each in own] == [
            ("BILLS", 1, False), ("BILLS", 1, True), ("BILLS", 2, False),
        ]  # fmt: skip
        assert info.state.messages == 2

    asyncio.run(work())


def test_a_message_that_no_stream_stores_is_an_error_with_ack(server: NatsServer) -> None:
    output = once(server.url, NatsInput(publish="nowhere", ack=True))
    assert code_of(output) == ("not-found", True)
    assert output.error is not None
    assert output.error.message.startswith('no stream stores messages of the subject "nowhere"')


@pytest.mark.parametrize(
    ("reply", "as_", "data"),
    [
        (b'{"price": 3}', "auto", {"price": 3}),
        (b'{"price": 3}', "text", '{"price": 3}'),
        (b"three", "auto", "three"),
        (b"\xff\xfe", "auto", {"base64": "//4="}),
        (b"", "auto", ""),
    ],
)
def test_the_reply_of_a_request_is_the_output(reply: bytes, as_: str, data: JSON, server: NatsServer) -> None:
    async def work() -> None:
        async def answer(message: Msg) -> None:
            await plain.publish(message.reply, reply, headers={"Asked": message.data.decode()})

        plain = await nats.connect(server.url)
        await plain.subscribe("prices", cb=answer)
        await plain.flush()
        async with tool_of() as tool:
            asked = NatsInput(request="prices", json="tea", as_=as_)  # type: ignore[arg-type]  # of the parameters
            output = await tool.run(asked, called(server.url))
        await plain.close()
        assert (output.status, output.data, output.own["nats"]["headers"]) == ("ok", data, {"Asked": '"tea"'})

    asyncio.run(work())


def test_requests_at_the_same_time_get_their_own_replies(server: NatsServer) -> None:
    async def work() -> None:
        async def answer(message: Msg) -> None:
            await message.respond(message.data)

        plain = await nats.connect(server.url)
        await plain.subscribe("echo", cb=answer)
        await plain.flush()
        async with tool_of() as tool:
            asked = [tool.run(NatsInput(request="echo", json=n), called(server.url)) for n in range(50)]
            assert [each.data for each in await asyncio.gather(*asked)] == list(range(50))
        await plain.close()

    asyncio.run(work())


def test_an_error_of_a_service_is_an_error(server: NatsServer) -> None:
    async def work() -> None:
        async def answer(message: Msg) -> None:
            failure = {"Nats-Service-Error-Code": "402", "Nats-Service-Error": "no money"}
            await plain.publish(message.reply, b"{}", headers=failure)

        plain = await nats.connect(server.url)
        await plain.subscribe("pay", cb=answer)
        await plain.flush()
        async with tool_of() as tool:
            output = await tool.run(NatsInput(request="pay"), called(server.url))
        await plain.close()
        assert code_of(output) == ("service", False)
        assert output.error is not None
        assert output.error.message == 'the service at "pay" reports an error: 402 no money'

    asyncio.run(work())


def test_a_request_without_a_receiver_is_a_retryable_error(server: NatsServer) -> None:
    assert code_of(once(server.url, NatsInput(request="nobody"))) == ("no-responders", True)


def test_the_life_of_a_key(server: NatsServer) -> None:
    def kv(operation: str, **more: JSON) -> NatsInput:
        return NatsInput(kv=operation, bucket="cities", **more)  # type: ignore[arg-type]  # of the test

    async def work() -> None:
        plain = await nats.connect(server.url)
        await plain.jetstream().create_key_value(KeyValueConfig(bucket="cities"))
        await plain.close()
        async with tool_of() as tool:

            async def run(operation: str, **more: JSON) -> Output:
                return await tool.run(kv(operation, **more), called(server.url))

            assert (await run("keys")).data == []
            assert (await run("put", key="ch/bern", json={"people": 1}, revision=0)).data == {
                "key": "ch/bern", "revision": 1,
            }  # fmt: skip
            assert code_of(await run("put", key="ch/bern", json=2, revision=0)) == ("exists", False)
            assert code_of(await run("put", key="ch/bern", json=2, revision=7)) == ("changed", False)
            found = await run("get", key="ch/bern")
            assert (found.data, found.own["nats"]["revision"]) == ({"people": 1}, 1)
            await run("put", key="ch.uster", text="null")
            assert (await run("get", key="ch.uster", as_="text")).data == "null"
            assert (await run("keys")).data == ["ch.uster", "ch/bern"]
            assert (await run("keys", key="ch.*")).data == ["ch.uster"]
            assert code_of(await run("delete", key="ch/bern", revision=9)) == ("changed", False)
            assert (await run("delete", key="ch/bern")).status == "ok"
            assert (await run("delete", key="never")).status == "ok"
            assert code_of(await run("get", key="ch/bern")) == ("not-found", False)
            assert code_of(await run("get", key="unknown")) == ("not-found", False)
            assert (await run("keys")).data == ["ch.uster"]
            assert (await run("put", key="ch/bern", json=3, revision=0)).status == "ok"
            assert (await run("get", key="ch/bern")).data == 3

    asyncio.run(work())


@pytest.mark.parametrize("operation", ["get", "put", "delete", "keys"])
def test_a_bucket_that_does_not_exist_is_named(operation: str, server: NatsServer) -> None:
    more: dict[str, JSON] = {"json": 1} if operation == "put" else {}
    asked = NatsInput(kv=operation, bucket="none", key="a", **more)  # type: ignore[arg-type]  # of the parameters
    output = once(server.url, asked)
    assert code_of(output)[0] == "not-found"
    assert output.error is not None
    assert output.error.message.startswith('there is no bucket "none"')


@pytest.mark.parametrize(
    ("input", "message"),
    [
        (NatsInput(), "exactly one of `publish`, `request` and `kv` is required"),
        (NatsInput(publish="a", request="b"), "exactly one of `publish`, `request` and `kv` is required"),
        (NatsInput(publish="a b"), "`publish` must be a subject"),
        (NatsInput(publish="a.*"), "`publish` must be a subject"),
        (NatsInput(publish="a\r\nPUB b 0"), "`publish` must be a subject"),
        (NatsInput(request="a", ack=True), "`ack` has no effect in `request`"),
        (NatsInput(publish="a", as_="json"), "`as` has no effect in `publish`"),
        (NatsInput(publish="a", json=1, text="x"), "`json` and `text` exclude each other"),
        (NatsInput(publish="a", headers={"Nats-Msg-Id": "x"}), '"Nats-Msg-Id" cannot be the name of a header'),
        (NatsInput(publish="a", headers={"A": "x\r\nB: y"}), "the header A contains a control character"),
        (NatsInput(kv="get", key="a"), "`bucket` must be the name of a bucket"),
        (NatsInput(kv="get", bucket="b.c", key="a"), "`bucket` must be the name of a bucket"),
        (NatsInput(kv="get", bucket="b", key="a.*"), "`key` must consist of letters"),
        (NatsInput(kv="put", bucket="b", key="a"), "`kv: put` needs `json` or `text`"),
        (NatsInput(kv="get", bucket="b", key="a", json=1), "`json` has no effect in `get`"),
        (NatsInput(kv="keys", bucket="b", key="a>"), "`key` must be a key or a pattern"),
    ],
)
def test_invalid_fields_are_named(input: NatsInput, message: str, server: NatsServer) -> None:
    output = once(server.url, input)
    assert output.error is not None
    assert output.error.kind == "input"
    assert output.error.message.startswith(message)


def test_a_message_above_the_limit_of_the_server_is_refused(server: NatsServer) -> None:
    output = once(server.url, NatsInput(publish="a", text="x" * (1 << 21)))
    assert output.error is not None
    assert output.error.kind == "payload-too-large"
    assert "2,097,152 bytes, and the server accepts 1,048,576" in output.error.message


def test_a_reply_as_json_must_be_json(server: NatsServer) -> None:
    async def work() -> None:
        async def answer(message: Msg) -> None:
            await message.respond(b"no json")

        plain = await nats.connect(server.url)
        await plain.subscribe("words", cb=answer)
        await plain.flush()
        async with tool_of() as tool:
            output = await tool.run(NatsInput(request="words", as_="json"), called(server.url))
        await plain.close()
        assert code_of(output) == ("content", False)

    asyncio.run(work())


# Connections


def url_of(server: NatsServer, login: str) -> str:
    return server.url.replace("nats://", f"nats://{login}@")


def test_a_refused_login_is_tried_once_more_with_a_renewed_credential(limited: NatsServer) -> None:
    right, wrong = url_of(limited, "ann:hunter22"), url_of(limited, "ann:hunter99")
    assert once(wrong, NatsInput(publish="a"), right).status == "ok"
    for url in (wrong, limited.url):
        output = once(url, NatsInput(publish="a"))
        assert code_of(output) == ("refused", False)
        assert output.error is not None
        assert "hunter" not in output.error.message


def published(server: NatsServer, **login: str) -> Output:
    values = {"url": Secret(server.url), **{name: Secret(value) for name, value in login.items()}}

    async def renew() -> Auth:
        return auth

    async def go() -> Output:
        async with tool_of() as tool:
            return await tool.run(NatsInput(publish="a"), call()._replace(auth=auth))

    auth = Auth("broker", "nats_credential", values, renew)
    return asyncio.run(go())


def test_a_login_with_the_seed_of_an_nkey(tmp_path: Path) -> None:
    user, other = new_key("user"), new_key("user")
    with running_nats(tmp_path, with_nkey(user)) as server:
        assert published(server, nkey=f"{user.seed}\n").status == "ok"
        assert code_of(published(server, nkey=other.seed)) == ("refused", False)
        assert code_of(published(server)) == ("refused", False)


def test_a_login_with_a_creds_file(tmp_path: Path) -> None:
    (config, creds), (_, other) = with_operator(), with_operator()
    (tmp_path / "nats").mkdir()
    with running_nats(tmp_path / "nats", config, jetstream=False) as server:
        assert published(server, creds=creds).status == "ok"
        assert published(server, creds=creds.replace("\n", "\r\n")).status == "ok"
        assert code_of(published(server, creds=other)) == ("refused", False)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("nkey", "SUnotbase32!", "it is not base32"),
        ("nkey", ACCOUNT.seed, 'it is not the seed of a user, which begins with "SU"'),
        ("nkey", f"{USER.seed[:-2]}AA", 'it is not the seed of a user, which begins with "SU"'),
        ("creds", "eyJ0eXAiOiJKV1QifQ", "it is not the text of a .creds file, with a user JWT and a seed"),
    ],
)
def test_a_key_that_cannot_be_used_is_an_error_without_it(
    field: str, value: str, reason: str, server: NatsServer
) -> None:
    error = published(server, **{field: value}).error
    assert error is not None
    assert (error.kind, error.message) == ("credential", f'the field "{field}" cannot be used: {reason}')


@pytest.mark.parametrize(("required", "code"), [("true", ("refused", False)), ("false", ("unavailable", True))])
def test_a_server_that_hangs_up_during_the_login_gives_no_connection(required: str, code: tuple[str, bool]) -> None:
    async def work() -> Output:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b'INFO {"auth_required":%s,"max_payload":1048576}\r\n' % required.encode())
            await reader.readuntil(b"PING\r\n")
            writer.close()

        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server, tool_of() as tool:
            port = server.sockets[0].getsockname()[1]
            return await tool.run(NatsInput(publish="a"), called(f"nats://ann:hunter22@127.0.0.1:{port}"))

    assert code_of(asyncio.run(work())) == code


def test_subjects_that_the_user_may_not_use_are_named(limited: NatsServer) -> None:
    eve = url_of(limited, "eve:hunter23")
    assert once(eve, NatsInput(publish="open")).status == "ok"
    output = once(eve, NatsInput(publish="Closed"))
    assert code_of(output) == ("denied", False)
    assert output.error is not None
    assert output.error.message == 'the NATS user may not publish to "Closed"'
    replies = once(eve, NatsInput(request="open"))
    assert code_of(replies) == ("denied", False)
    assert replies.error is not None
    assert "may not receive replies" in replies.error.message


def test_the_address_policy_is_obeyed_d88(server: NatsServer) -> None:
    output = once(server.url, NatsInput(publish="a"), allow_private=False)
    assert code_of(output) == ("denied", False)
    assert output.error is not None
    assert output.error.message.startswith("the address of the server is not allowed: 127.0.0.1 is a loopback address")
    assert once(server.url, NatsInput(publish="a"), allow_private=False, allow=("127.0.0.0/8",)).status == "ok"


def test_nothing_is_sent_without_tls_if_the_credential_requires_it(limited: NatsServer) -> None:
    output = once(url_of(limited, "ann:hunter22").replace("nats://", "tls://"), NatsInput(publish="a"))
    assert code_of(output) == ("refused", False)
    assert output.error is not None
    assert "requires TLS" in output.error.message


def test_without_a_server_the_call_can_be_retried() -> None:
    output = once(f"nats://127.0.0.1:{free_port()}", NatsInput(publish="a"))
    assert code_of(output) == ("unavailable", True)


def test_the_next_server_of_the_credential_is_used(server: NatsServer) -> None:
    assert once(f"nats://127.0.0.1:{free_port()},{server.url}", NatsInput(publish="a")).status == "ok"


@pytest.mark.parametrize("url", ["", "http://x", "nats://", "nats://x:0", "nats://x:y", "nats://[::"])
def test_an_unusable_credential_is_not_shown(url: str) -> None:
    output = once(url, NatsInput(publish="a"))
    assert output.error is not None
    assert output.error.kind == "credential"
    assert url == "" or url not in output.error.message.replace("nats://host:port", "")


def test_a_lost_connection_fails_the_request_and_the_next_call_connects_again(tmp_path: Path) -> None:
    async def work(server: NatsServer) -> None:
        plain = await nats.connect(server.url, allow_reconnect=False)
        asked = asyncio.Event()

        async def never(_: Msg) -> None:
            asked.set()

        await plain.subscribe("silent", cb=never)
        await plain.flush()
        async with tool_of() as tool:
            running = asyncio.ensure_future(tool.run(NatsInput(request="silent"), called(server.url)))
            await asked.wait()
            server.kill()
            assert code_of(await running) == ("unavailable", True)
            server.start()
            assert (await tool.run(NatsInput(publish="a"), called(server.url))).status == "ok"

    with running_nats(tmp_path) as server:
        asyncio.run(work(server))


def test_a_worker_keeps_a_limited_number_of_connections(server: NatsServer) -> None:
    async def work() -> None:
        async with tool_of() as tool:
            for number in range(CONNECTIONS_MAX + 5):
                url = server.url.replace("nats://", f"nats://user{number}:x@")
                assert (await tool.run(NatsInput(publish="a"), called(url))).status == "ok"
            assert tool._connections is not None
            assert len(tool._connections._open) == CONNECTIONS_MAX

    asyncio.run(work())
