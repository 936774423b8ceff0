"""The stream of NATS arrives in any pieces: every message is handled once, and whole."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import BadSubjectError, ConnectionClosedError, MaxPayloadError, ProtocolError

from noetl.adapters.nats.client import LINE_MAX, DirectClient

STREAM = (
    b"MSG noetl.ask.1 7 5\r\nhello\r\n"
    b"MSG noetl.ask.1 7 _INBOX.a.1 12\r\nline\r\nbreaks\r\n"
    b"+OK\r\n"
    b"HMSG pull 7 $JS.ACK.1 32 35\r\nNATS/1.0\r\nNats-Msg-Id: a:b c\r\n\r\nabc\r\n"
    b"HMSG pull 7 26 26\r\nNATS/1.0 408 Timed Out\r\n\r\n\r\n"
    b"MSG noetl.ask.1 7 0\r\n\r\n"
    b"MSG gone 8 2\r\nno\r\n"
)


class Subscriber:
    def __init__(self) -> None:
        self.messages: list[Msg] = []
        self.handler = self.messages.append

    async def receive(self, _message: Msg) -> None:
        raise AssertionError("the handler is called directly")


def make_client() -> tuple[DirectClient, Subscriber]:
    client, subscriber = DirectClient(secure=False), Subscriber()
    client._subs[7] = SimpleNamespace(_cb=subscriber.receive)  # type: ignore[assignment]
    client._status = Client.CONNECTED
    return client, subscriber


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 64, len(STREAM)])
def test_messages_in_pieces_of_any_size(size: int) -> None:
    client, subscriber = make_client()
    for at in range(0, len(STREAM), size):
        client._parser.feed(STREAM[at : at + size])

    received = [(each.subject, each.reply, each.data, each.headers) for each in subscriber.messages]
    assert received == [
        ("noetl.ask.1", "", b"hello", None),
        ("noetl.ask.1", "_INBOX.a.1", b"line\r\nbreaks", None),
        ("pull", "$JS.ACK.1", b"abc", {"Nats-Msg-Id": "a:b c"}),
        ("pull", "", b"", {"Status": "408"}),
        ("noetl.ask.1", "", b"", None),
    ]


def test_a_large_message_is_joined_once() -> None:
    client, subscriber = make_client()
    body = b"x" * 1_000_000
    whole = b"MSG a 7 %d\r\n%b\r\nMSG a 7 1\r\ny\r\n" % (len(body), body)
    for at in range(0, len(whole), 1_000):
        client._parser.feed(whole[at : at + 1_000])
    assert [len(each.data) for each in subscriber.messages] == [1_000_000, 1]


@pytest.mark.parametrize(
    "line", [b"MSG a seven 5\r\n", b"MSG 5\r\n", b"INFO {\r\n", b"HELLO\r\n", b"MSG " + b"a" * (LINE_MAX + 1)]
)
def test_a_line_that_nats_does_not_send(line: bytes) -> None:
    client, _ = make_client()
    with pytest.raises(ProtocolError):
        client._parser.feed(line)


def test_a_new_connection_forgets_the_rest_of_the_old_one() -> None:
    client, subscriber = make_client()
    client._parser.feed(b"MSG a 7 100\r\nthe beginn")
    client._parser.reset()
    client._parser.feed(b"MSG a 7 2\r\nok\r\n")
    assert [each.data for each in subscriber.messages] == [b"ok"]


def test_messages_of_one_turn_are_written_together() -> None:
    async def send() -> bytes:
        client, _ = make_client()
        client.send("a.b", b"one")
        client.send("a.c", b"two", reply="r.1")
        client.send("a.d", b"three", headers={"Nats-Msg-Id": "two\r\nlines"})
        return b"".join(client._pending)

    assert asyncio.run(send()) == (
        b"PUB a.b  3\r\none\r\n"
        b"PUB a.c r.1 3\r\ntwo\r\n"
        b"HPUB a.d  37 42\r\nNATS/1.0\r\nNats-Msg-Id: two  lines\r\n\r\nthree\r\n"
    )


@pytest.mark.parametrize("text", ["a b", "a\r\nPUB b 0\r\n\r\n", "a\tb"])
def test_a_subject_cannot_contain_another_command(text: str) -> None:
    client, _ = make_client()
    for subject, reply in ((text, ""), ("a", text), ("", "a")):
        with pytest.raises(BadSubjectError):
            client.send(subject, b"", reply)


def test_what_cannot_be_sent() -> None:
    client, _ = make_client()
    client._max_payload = 10
    with pytest.raises(MaxPayloadError):
        client.send("a", b"x" * 11)
    client._status = Client.RECONNECTING
    with pytest.raises(ConnectionClosedError):
        client.send("a", b"x")
