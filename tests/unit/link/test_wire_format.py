"""The bytes on the wire are those of 0.1.0, so that servers and workers of different releases work together."""

from __future__ import annotations

import pytest

from noetl.engine.commands import Cancel, Report, Start
from noetl.engine.facts import TaskDone
from noetl.errors import InputError, InputProblem, NoetlError, NotFound, Rejected
from noetl.link import client, feed, workers
from noetl.link.keys import LinkKey
from noetl.link.messages import (
    DECODERS,
    BeatReply,
    BeatRequest,
    BeginRequest,
    CredentialRequest,
    EncryptedReply,
    IterationsRequest,
    LinkRequest,
    LinkStartRequest,
    ParentRequest,
    PlaybookReply,
    PlaybookRequest,
    ReportRequest,
    WorkRequest,
    decode_reply,
    decode_request,
    encode_command,
    encode_error,
    encode_reply,
    encode_request,
)
from noetl.link.secret_channel import decrypt, proof_of
from noetl.output import Output
from noetl.runtime.server import OWNERSHIP_SUBJECT

FACT = TaskDone(frame="a#1", call=1, task="t", directive="continue", next=-1, output=Output(data={"n": 2**70}))
CREDENTIAL = CredentialRequest("e", "a#1", (3, 4), "w", "api", b"n" * 16, b"p", True)
REQUESTS: list[tuple[LinkRequest, bytes]] = [
    (WorkRequest(7), b'{"v":1,"ask":"work","body":{"partition":7}}'),
    (WorkRequest(7, "e"), b'{"v":1,"ask":"work","body":{"partition":7,"execution_id":"e"}}'),
    (
        BeginRequest("e", "a#1", "w", holds=True),
        b'{"v":1,"ask":"begin","body":{"execution_id":"e","frame":"a#1","worker":"w","holds":true}}',
    ),
    (
        ReportRequest("e", Report(frame="a#1", position=0, facts=(FACT,), epoch=(3, 4)), 2, holds=True),
        b'{"v":1,"ask":"reported","body":{"execution_id":"e","report":{"frame":"a#1","position":0,"facts":'
        b'[{"fact":"task.done","frame":"a#1","call":1,"task":"t","directive":"continue","next":-1,"output":'
        b'{"data":{"n":1180591620717411303424}}}],"parked":null,"document":null,"answer":null,"epoch":[3,4],'
        b'"started_at":null,"running":null},"room":2,"holds":true}}',
    ),
    (
        BeatRequest("w", (("e", "a#1", (3, 4)),)),
        b'{"v":1,"ask":"beat","body":{"worker":"w","holds":[["e","a#1",[3,4]]]}}',
    ),
    (
        BeatRequest("w", (("e", "a#1", (3, 4)),), grouped=True),
        b'{"v":1,"ask":"beat","body":{"worker":"w","holds":[["e","a#1",[3,4]]],"grouped":true}}',
    ),
    (
        LinkStartRequest("e", "d", Start(workload={"x": 1}, by="me")),
        b'{"v":1,"ask":"started","body":{"execution_id":"e","digest":"d","start":{"workload":{"x":1},'
        b'"parent":null,"depth":0,"by":"me","error":null,"keychain":{},"level":1,"ctx":{},"labels":{},"saved":{},'
        b'"fork":null,"held":null,"breakpoints":[]}}}',
    ),
    (
        encode_command("e", Cancel(reason="r")),
        b'{"v":1,"ask":"commanded","body":{"execution_id":"e","kind":"Cancel","command":{"reason":"r","by":null,'
        b'"compensate":false}}}',
    ),
    (
        IterationsRequest("e", "a#1", (0, 3, 1)),
        b'{"v":1,"ask":"iterations","body":{"execution_id":"e","run":"a#1","only":[0,3,1]}}',
    ),
    (ParentRequest("e"), b'{"v":1,"ask":"parent","body":{"execution_id":"e"}}'),
    (PlaybookRequest("d"), b'{"v":1,"ask":"textof","body":{"digest":"d"}}'),
    (
        CREDENTIAL,
        b'{"v":1,"ask":"secretof","body":{"execution_id":"e","frame":"a#1","epoch":[3,4],"worker":"w",'
        b'"entry":"api","nonce":"bm5ubm5ubm5ubm5ubm5ubg==","proof":"cA==","fresh":true}}',
    ),
]


@pytest.mark.parametrize(("request_", "wire"), REQUESTS, ids=[type(each).__name__ for each, _ in REQUESTS])
def test_requests(request_: LinkRequest, wire: bytes) -> None:
    assert encode_request(request_) == wire
    assert decode_request(wire) == request_


def test_a_worker_of_the_release_does_not_say_that_it_stops_at_breakpoints() -> None:
    wire = b'{"v":1,"ask":"begin","body":{"execution_id":"e","frame":"a#1","worker":"w"}}'
    assert decode_request(wire) == BeginRequest("e", "a#1", "w", holds=False)


def test_a_start_of_a_process_that_knows_no_level() -> None:
    """0.1 sends none."""
    wire = (
        b'{"v":1,"ask":"started","body":{"execution_id":"e","digest":"d","start":{"workload":{"x":1},'
        b'"parent":null,"depth":0,"by":"me","error":null,"keychain":{}}}}'
    )
    assert decode_request(wire) == LinkStartRequest("e", "d", Start(workload={"x": 1}, by="me"))


def test_replies() -> None:
    reply = encode_reply(PlaybookReply("d", "p", "t", None))
    assert reply == b'{"v":1,"body":{"digest":"d","path":"p","text":"t","origin":null}}'


@pytest.mark.parametrize("reply", [BeatReply([("e", "a#1")], (2, 5)), [("e", "a#1")], []])
def test_replies_to_heartbeats(reply: BeatReply | list[tuple[str, str]]) -> None:
    assert decode_reply(encode_reply(reply), DECODERS.beat) == reply


@pytest.mark.parametrize(
    ("error", "wire"),
    [
        (Rejected("held", "no"), b'{"v":1,"error":{"kind":"rejected","words":"no","code":"held"}}'),
        (
            InputError([InputProblem("n", "no")]),
            b'{"v":1,"error":{"kind":"rejected","words":"n: no","code":"bad-input","inputs":[["n","no"]]}}',
        ),
        (NotFound("no x"), b'{"v":1,"error":{"kind":"not-found","words":"no x"}}'),
    ],
)
def test_errors(error: NoetlError, wire: bytes) -> None:
    assert encode_error(error) == wire


def test_the_problems_of_inputs_arrive() -> None:
    problems = (InputProblem("n", "expected an integer"), InputProblem("m", "missing"))
    with pytest.raises(InputError) as error:
        decode_reply(encode_error(InputError(problems)), lambda body: body)
    assert error.value.problems == problems


def test_the_secret_channel() -> None:
    key = LinkKey(bytes(range(32)))
    proof = "f835947e033a9774d7142162957ae6befab6df9d54fe6456075ac037695d19ae"
    assert proof_of(key, CREDENTIAL).hex() == proof
    nonce, body = "c142f7fe41c78616ec3ecf07", "9fbd87690c5bc50a69f1b366649f7f6a4885ea7714"
    reply = EncryptedReply(bytes.fromhex(nonce), bytes.fromhex(body))
    assert decrypt(key, CREDENTIAL, reply) == b"value"


def test_subjects() -> None:
    assert (client.OWNER_SUBJECT, client.ANY_SUBJECT) == ("noetl.ask", "noetl.any")
    assert (feed.PROGRESS_SUBJECT, feed.LINES_SUBJECT) == ("noetl.news", "noetl.words")
    assert (workers.WORKERS_SUBJECT, workers.POLL_SUBJECT) == ("noetl.workers", "noetl.roll-call")
    assert OWNERSHIP_SUBJECT == "noetl.owners"
