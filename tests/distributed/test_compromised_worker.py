"""A compromised worker: with all that a worker of pool `a` can read, it reaches nothing of other pools.

It tries to read the queue, the messages, the workloads and the secrets of pool `b`, to begin, report and extend its
frames, and to act as a server. Everything is refused, and honest workers of both pools do their work meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import nats
import pytest
from msgspec.structs import replace
from nats.aio.client import Client as RawNats
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import NatsConnection
from noetl.adapters.nats.permissions import inbox_of
from noetl.clock import SystemClock
from noetl.control.playbooks import CompiledPlaybooks
from noetl.engine.commands import Cancel, EndLoop, Report, Signal, Start
from noetl.engine.facts import TaskStarted
from noetl.errors import NoetlError
from noetl.ids import partition_of
from noetl.link.client import LinkClient, LinkPlaybooks, LinkRequests
from noetl.link.keys import SERVER, LinkIdentity, LinkKey
from noetl.link.messages import DECODERS, CredentialRequest, LinkStartRequest, encode_request
from noetl.link.secret_channel import REQUEST_NONCE_BYTES, decrypt, proof_of
from noetl.output import Output
from noetl.ports import Epoch
from noetl.testing.contracts.link import task_done
from tests.distributed.cluster import PARTITIONS, Cluster, ClusterSize, open_cluster, repeated
from tests.distributed.effects import Effects, effects
from tests.playbooks import HEAD, kinds

SECRET, WORKLOAD = "secret-value-of-b", "workload-of-b"
PLAYBOOK = (
    HEAD.replace("path: t", "path: of/POOL")
    + """\
keychain:
- {name: api, kind: bearer, token: {env: NOETL_SECRET_POOL}}
workload: {url: "", marker: ""}
executor: {spec: {pool: POOL}}
workflow:
- step: start
  loop: {in: "{{ range(3) }}", iterator: n}
  tool: {kind: http, input: {url: "{{ workload.url }}/call/{{ workload.marker }}-{{ execution_id }}-{{ iter.n }}"}}
  next: {arcs: [{step: held}]}
- step: held
  tool: {kind: http, auth: api, input: {url: "{{ workload.url }}/gate/POOL/{{ execution_id }}"}}
"""
)
GUESSES: tuple[Epoch, ...] = ((0, 0), *((owner, number) for owner in (1, 2, 3) for number in (1, 2, 5, 8)), (99, 99))


class Attacker:
    """It has the environment of a worker of pool `a`, and all of our code."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.url, key = environment["NOETL_NATS"], LinkKey.parsed(environment["NOETL_POOL_KEY"])
        self.key = key
        self.held: tuple[str, str, Epoch] | None = None
        self.connection = NatsConnection(self.url, "evil", inbox=inbox_of("a"))

    def identity(self, pool: str) -> LinkIdentity:
        return LinkIdentity(pool, self.key, SystemClock(), worker="evil", held_frame=lambda: self.held)

    def link(self, pool: str = "a") -> LinkClient:
        identity = self.identity(pool)
        programs = CompiledPlaybooks(LinkPlaybooks(self.connection, identity), kinds())
        return LinkClient(self.connection, programs, timeout_s=5.0, identity=identity)

    async def secret(self, held: tuple[str, str, Epoch], pool: str = "a") -> bytes:
        """One request; `LinkSecrets` would repeat it for half a minute."""
        request = CredentialRequest(*held, "evil", "api", os.urandom(REQUEST_NONCE_BYTES), b"")
        request = replace(request, proof=proof_of(self.key, request))
        requests = LinkRequests(self.connection, identity=self.identity(pool))
        return decrypt(self.key, request, await requests.owner(held[0], request, DECODERS.secret))


class Scene(NamedTuple):
    cluster: Cluster
    served: Effects
    attacker: Attacker
    victim: str  # of pool b: its worker holds the frame held#1
    waiting: str  # of pool gpu, which has no worker: its pointer is in the queue
    more: list[str]  # further executions of honest callers


def environment_of(cluster: Cluster, worker: int) -> dict[str, str]:
    """The variables of NoETL that code on the worker can read."""
    started_with = cluster.workers[worker].program.environment
    found = {name: value for name, value in started_with.items() if name.startswith("NOETL_")}
    assert found.keys().isdisjoint({"NOETL_LINK_KEY", "NOETL_POOL_KEYS", "NOETL_DB", "NOETL_KEY"})
    return found


def of_pool(pool: str) -> str:
    return PLAYBOOK.replace("POOL", pool)


@contextmanager
def isolated(folder: Path, isolation: Literal["pools", "keys"]) -> Iterator[tuple[Cluster, Effects]]:
    variables = {"NOETL_SECRET_a": "secret-value-of-a", "NOETL_SECRET_b": SECRET, "NOETL_SECRET_gpu": "gpu"}

    size = ClusterSize(servers=2, workers=2, slots=8, pools=("a", "b"), variables=variables, lease_s=60.0)
    with effects() as served, open_cluster(folder, size._replace(isolation=isolation)) as cluster:
        yield cluster, served


@asynccontextmanager
async def attacked(cluster: Cluster, served: Effects) -> AsyncIterator[Scene]:
    """Pool b holds a frame during the attack; afterwards all executions end well, and no call was repeated."""
    workload = {"url": served.url, "marker": WORKLOAD}
    victim = await cluster.start(of_pool("b"), workload)
    waiting = await cluster.start(of_pool("gpu"), workload)
    await served.until(lambda seen: f"b/{victim}" in seen.calls)
    attacker = Attacker(environment_of(cluster, 0))
    served.open("a")
    beside = asyncio.gather(
        *(cluster.run(of_pool("a"), {"url": served.url, "marker": f"beside-{n}"}) for n in range(5))
    )
    more: list[str] = []
    yield Scene(cluster, served, attacker, victim, waiting, more)
    await attacker.connection.close()
    assert [each.status for each in await beside] == ["ok"] * 5
    for gate in ("b", "gpu"):
        served.open(gate)
    cluster.add_worker(pool="gpu")
    known = await cluster.executions()
    for id in (victim, waiting, *more):
        assert (await cluster.ended(id)).status == "ok"
        await cluster.audited(id)
        assert repeated(await cluster.facts(id)) == []
    assert served.repeated == {}
    assert len(known) == 7 + len(more), "the attacker has started no execution"


async def refusals(attacks: Mapping[str, Awaitable[object]]) -> dict[str, str]:
    """Why each attack failed. An attack that succeeds fails the test."""
    found = {}
    for name, attack in attacks.items():
        try:
            answer = await attack
        except NoetlError as error:
            found[name] = str(error)
        else:
            pytest.fail(f"{name}: {answer!r}")
    return found


def link_attacks(scene: Scene, pool: str, digest: str) -> dict[str, Awaitable[object]]:
    """All requests of the link, for executions of other pools, with many guesses of the epoch."""
    attacker, victim, link = scene.attacker, scene.victim, scene.attacker.link(pool)
    attacks: dict[str, Awaitable[object]] = {
        "begin a held frame": link.begin(victim, "held#1", "w1"),
        "begin a waiting frame": link.begin(scene.waiting, "start#1[0]", "evil"),
        "start": link.start("forged", digest, Start(by="admin", workload={"url": scene.served.url})),
        "cancel": link.command(victim, Cancel(by="admin")),
        "signal": link.command(victim, Signal(name="go", by="admin")),
        "end a loop": link.command(victim, EndLoop(run="start#1", picked={})),
        "read the results of a loop": link.iterations(victim, "start#1"),
        "read the parent": link.parent(victim),
        "read a playbook": LinkPlaybooks(attacker.connection, attacker.identity(pool)).get(digest),
    }
    for epoch in GUESSES:
        facts = (task_done("held#1", Output(data="forged")),)
        report = Report(frame="held#1", position=0, facts=facts, epoch=epoch)
        attacks[f"report {epoch}"] = link.report(victim, report)
        attacks[f"return the frame {epoch}"] = link.report(victim, Report(frame="held#1", position=0, epoch=epoch))
        attacks[f"beat {epoch}"] = link.beat("w1", [(victim, "held#1", epoch)])
        attacks[f"secret {epoch}"] = attacker.secret((victim, "held#1", epoch), pool)
    return attacks


async def digest_of(cluster: Cluster, id: str) -> str:
    return (await cluster.audited(id)).digest


async def _every_request_is_refused(cluster: Cluster, served: Effects) -> None:
    async with attacked(cluster, served) as scene:
        digest = await digest_of(cluster, scene.victim)
        found = await refusals(link_attacks(scene, "a", digest))
        assert found["begin a held frame"].startswith("not-permitted: a worker of the pool")
        assert found["start"] == 'not-permitted: a worker of the pool "a" may not start executions'
        assert found["cancel"] == 'not-permitted: a worker of the pool "a" may not send the command Cancel'
        for name in ("beat", "report", "return the frame"):
            assert 'which is of the pool "b"' in found[f"{name} (1, 1)"]
        assert 'which is of the pool "b"' in found["secret (1, 1)"]


def test_every_request_for_another_pool_is_refused(tmp_path: Path) -> None:
    with isolated(tmp_path, "pools") as (cluster, served):
        asyncio.run(_every_request_is_refused(cluster, served))


# A worker that holds a frame of its own


async def _a_grant_gives_nothing_else(cluster: Cluster, served: Effects) -> None:
    async with attacked(cluster, served) as scene:
        attacker, victim = scene.attacker, scene.victim
        link, digest = attacker.link(), await digest_of(cluster, victim)
        own = await cluster.start(of_pool("a").replace("gate/a", "gate/own"), {"url": served.url, "marker": "own"})
        await served.until(lambda seen: f"own/{own}" in seen.calls)
        # The other worker of pool a holds the frame. Workers of one pool trust each other: the attacker may use it.
        attacker.held = await _own_grant(scene, own)
        attacks = {
            "read the results of a loop": link.iterations(victim, "start#1"),
            "read the parent": link.parent(victim),
            "end a loop": link.command(victim, EndLoop(run="start#1", picked={})),
            "cancel": link.command(own, Cancel(by="admin")),
            "secret of b": attacker.secret((victim, "held#1", attacker.held[2])),
            "secret of a frame that no worker holds": attacker.secret((own, "start#1[0]", attacker.held[2])),
            "start": link.start("forged", digest, Start(by="admin")),
        }
        found = await refusals(attacks)
        assert "in the tree of" in found["read the results of a loop"]
        assert "no longer holds" in found["secret of a frame that no worker holds"]
        assert len(await link.iterations(own, "start#1")) == 3, "its own execution it may read"
        served.open("own")
        scene.more.append(own)


async def _own_grant(scene: Scene, own: str) -> tuple[str, str, Epoch]:
    """The frame held#1 with its grant, which a call that runs for a while has recorded."""
    found: list[Epoch] = []

    async def is_recorded() -> bool:
        started = [fact for fact in await scene.cluster.facts(own) if isinstance(fact, TaskStarted)]
        found.extend(fact.epoch for fact in started if fact.frame == "held#1" and fact.epoch is not None)
        return bool(found)

    await scene.cluster.until(is_recorded)
    return own, "held#1", found[0]


def test_a_worker_that_holds_a_frame_gets_nothing_beyond_its_execution(tmp_path: Path) -> None:
    with isolated(tmp_path, "pools") as (cluster, served):
        asyncio.run(_a_grant_gives_nothing_else(cluster, served))


# NATS itself


class RawAttacker:
    """The credentials of the worker with a plain client of NATS."""

    def __init__(self) -> None:
        self.denied: list[str] = []
        self.heard: list[tuple[str, bytes]] = []
        self.client = RawNats()
        self._news = asyncio.Event()

    async def open(self, url: str) -> None:
        async def on_error(error: Exception) -> None:
            self.denied.append(str(error).lower())
            self._news.set()

        self.client = await nats.connect(url, error_cb=on_error, inbox_prefix=inbox_of("a"))

    async def subscribe(self, subject: str) -> None:
        async def hear(message: Msg) -> None:
            self.heard.append((message.subject, message.data))

        await self.client.subscribe(subject, cb=hear)

    async def until_denied(self, what: str, subject: str) -> None:
        """Wait for the error of NATS. Raises TimeoutError if it permits the operation."""
        async with asyncio.timeout(30):
            while not any(f'{what} "{subject.lower()}"' in each for each in self.denied):
                self._news.clear()
                await self._news.wait()


SUBSCRIPTIONS = (
    ">", "_INBOX.>", "_INBOX.pool.>", "_INBOX.pool.b.>", "_INBOX.*", "noetl.>", "noetl.ask.>", "noetl.ask.*.b",
    "noetl.any.>", "noetl.work.>", "noetl.words.>", "noetl.news.>", "noetl.workers.>", "$JS.>", "$O.>",
)  # fmt: skip
PUBLICATIONS = (
    "noetl.ask.5", "noetl.ask.5.b", "noetl.any.text", "noetl.any.iterations", "noetl.work.b", "noetl.work.gpu",
    "noetl.news.5", "noetl.roll-call", "noetl.owners", "noetl.workers", "noetl.workers.b", "_INBOX.pool.b.x.1",
    "_INBOX.x.1",
    "$JS.API.CONSUMER.MSG.NEXT.NOETL_WORK.b", "$JS.API.CONSUMER.MSG.NEXT.NOETL_WORK.gpu",
    "$JS.API.CONSUMER.CREATE.NOETL_WORK", "$JS.API.CONSUMER.CREATE.NOETL_WORK.x.noetl.work.gpu",
    "$JS.API.CONSUMER.CREATE.NOETL_WORK.a.noetl.work.gpu", "$JS.API.CONSUMER.DURABLE.CREATE.NOETL_WORK.x",
    "$JS.API.CONSUMER.DELETE.NOETL_WORK.b", "$JS.API.CONSUMER.LIST.NOETL_WORK", "$JS.API.STREAM.DELETE.NOETL_WORK",
    "$JS.API.STREAM.PURGE.NOETL_WORK", "$JS.API.STREAM.MSG.GET.NOETL_WORK", "$JS.API.DIRECT.GET.NOETL_WORK",
    "$JS.API.STREAM.UPDATE.NOETL_WORK", "$JS.API.STREAM.CREATE.EVIL", "$JS.ACK.NOETL_WORK.b.1.1.1.1.1",
    "$JS.API.STREAM.DELETE.OBJ_noetl-results", "$JS.API.STREAM.PURGE.OBJ_noetl-results",
)  # fmt: skip


async def _nats_refuses(cluster: Cluster, served: Effects) -> None:
    async with attacked(cluster, served) as scene:
        raw = RawAttacker()
        await raw.open(scene.attacker.url)
        for subject in SUBSCRIPTIONS:
            await raw.subscribe(subject)
            await raw.until_denied("subscription to", subject)
        for subject in PUBLICATIONS:
            await raw.client.publish(subject, b"{}", reply=f"{inbox_of('a')}.x")
            await raw.until_denied("publish to", subject)
        # A permitted subject with another filter in the body.
        config = {"durable_name": "a", "name": "a", "filter_subject": "noetl.work.gpu", "ack_policy": "explicit"}
        for filters in ({}, {"filter_subject": "", "filter_subjects": ["noetl.work.a", "noetl.work.gpu"]}):
            body = json.dumps({"stream_name": "NOETL_WORK", "config": {**config, **filters}}).encode()
            answer = await raw.client.request("$JS.API.CONSUMER.CREATE.NOETL_WORK.a.noetl.work.a", body)
            assert "error" in json.loads(answer.data), answer.data
        await _forward_by_jetstream(scene, raw)
        assert raw.heard == []
        await raw.client.close()


async def _forward_by_jetstream(scene: Scene, raw: RawAttacker) -> None:
    """A consumer of the result store publishes stored bytes on any subject: servers refuse them without a key."""
    digest = await digest_of(scene.cluster, scene.victim)
    start = encode_request(LinkStartRequest("forged", digest, Start(by="admin", workload={"url": scene.served.url})))
    number = partition_of("forged", PARTITIONS)
    identity = scene.attacker.identity(SERVER)
    bodies = [start, identity.cipher.seal(start, f"request noetl.ask.{number}".encode())]
    stream, delivered = raw.client.jetstream(), list[str]()
    for count, body in enumerate(bodies):
        chunk = f"$O.noetl-results.C.evil{count}"
        await stream.publish(chunk, body)
        for subject in (f"noetl.ask.{number}", f"noetl.ask.{number}.b"):
            name = f"evil-{count}-{len(subject)}"
            config = {"name": name, "deliver_subject": subject, "filter_subject": chunk, "ack_policy": "none"}
            more = {"deliver_policy": "all", "replay_policy": "instant", "inactive_threshold": 600_000_000_000}
            request = json.dumps({"stream_name": "OBJ_noetl-results", "config": {**config, **more}}).encode()
            made = await raw.client.request(f"$JS.API.CONSUMER.CREATE.OBJ_noetl-results.{name}.{chunk}", request)
            assert json.loads(made.data).get("error") is None, made.data
            with suppress(TimeoutError):
                await scene.cluster.until(partial(_is_delivered, raw, name), timeout_s=15)
                delivered.append(subject)
    assert delivered, "the attack must reach a server"
    with pytest.raises(NoetlError):  # the same server answers, after the messages of the consumers
        await scene.attacker.link().start("forged", digest, Start())
    assert "forged" not in await scene.cluster.executions()
    assert any("request.refused" in each.output() for each in scene.cluster.servers)


async def _is_delivered(raw: RawAttacker, consumer: str) -> bool:
    answer = await raw.client.request(f"$JS.API.CONSUMER.INFO.OBJ_noetl-results.{consumer}", b"")
    return bool(json.loads(answer.data)["delivered"]["consumer_seq"])


def test_nats_refuses_the_subjects_of_servers_and_other_pools(tmp_path: Path) -> None:
    with isolated(tmp_path, "pools") as (cluster, served):
        asyncio.run(_nats_refuses(cluster, served))


# One NATS user for all: the keys alone


async def _keys_alone(cluster: Cluster, served: Effects) -> None:
    async with attacked(cluster, served) as scene:
        raw = RawAttacker()
        await raw.open(scene.attacker.url)
        await raw.subscribe(">")
        await raw.client.flush()
        digest = await digest_of(cluster, scene.victim)
        for pool in ("a", "b", SERVER):
            await refusals(link_attacks(scene, pool, digest))
        overheard = await cluster.start(of_pool("b"), {"url": served.url, "marker": WORKLOAD})
        await served.until(lambda seen: f"b/{overheard}" in seen.calls)
        sealed = [data for subject, data in raw.heard if subject.startswith("noetl.ask.")]
        assert sealed
        assert not [subject for subject, data in raw.heard if SECRET.encode() in data or WORKLOAD.encode() in data]
        # A repeated message is refused: it makes no second grant, and its reply cannot be read.
        for subject, data in raw.heard[:200]:
            if subject.endswith(".b") and subject.startswith("noetl.ask."):
                await raw.client.publish(subject, data, reply=f"{inbox_of('a')}.again")
        await raw.client.flush()
        await raw.client.close()
        scene.more.append(overheard)


def test_with_one_user_of_nats_the_keys_protect_workloads_secrets_and_reports(tmp_path: Path) -> None:
    with isolated(tmp_path, "keys") as (cluster, served):
        asyncio.run(_keys_alone(cluster, served))


# Without keys, as in 0.1.0


def test_without_keys_servers_and_workers_run_and_warn(tmp_path: Path) -> None:
    size = ClusterSize(workers=1, isolation="none", variables={"NOETL_SECRET_default": "x"})
    with effects() as served, open_cluster(tmp_path, size) as cluster:
        served.open("default")
        assert asyncio.run(cluster.run(of_pool("default"), {"url": served.url})).status == "ok"
        for process in (*cluster.servers, *cluster.workers):
            assert "pools.not-isolated" in process.output()
