"""Checks of the NATS between servers and workers: what it is, what it syncs and where. They only look."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError, ServiceUnavailableError

from noetl.adapters.nats.connection import NatsClient
from noetl.adapters.nats.credentials import NatsSettings
from noetl.adapters.nats.queue import STREAM
from noetl.errors import NoetlError
from noetl.net.describe import count
from noetl.runtime.doctor.checks import Diagnosis

OLDEST: Final = (2, 10, 23)  # before, a kill could take the whole stream
CONNECT_S: Final = 3
ANSWER_S: Final = 5.0
PAYLOAD_MIN: Final = 1 << 20
PAYLOAD_GOOD: Final = 8 << 20
MONITOR_PORT: Final = 8222
MONITOR_BYTES_MAX: Final = 4 << 20
TEMPORARY: Final = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/folders")
_SETTINGS: Final = 'jetstream { store_dir: "/var/lib/nats", sync_interval: always }'


class Kept(NamedTuple):
    """How a server keeps what it acknowledged, as its monitor tells."""

    folder: str
    synced: bool  # before it acknowledges


async def examine_nats(url: str, monitor: str | None) -> list[Diagnosis]:
    try:
        given = NatsSettings(url).resolve()
    except NoetlError as error:
        return [Diagnosis("nats-reachable", "error", str(error))]
    said: list[str] = []

    async def hear(error: Exception) -> None:
        said.append("authorization" if "authorization" in str(error).lower() else type(error).__name__)

    try:
        client = NatsClient(secure=given.tls is not None)
        await client.connect(
            given.servers, name="noetl doctor", user=given.user, password=given.password, token=given.token,
            user_credentials=given.credentials, tls=given.tls, connect_timeout=CONNECT_S,
            max_reconnect_attempts=1, reconnect_time_wait=0, error_cb=hear,
        )  # fmt: skip
    except (NatsError, OSError, TimeoutError) as error:
        # A door that is shut in our face sounds like a line that breaks: whatever else was said, it was that.
        why = "authorization" if "authorization" in said else [type(error).__name__, *said][-1]
        return [unreachable(why)]
    try:
        return await _examine(client, monitor or _monitor_of(given.servers[0]))
    except (NatsError, OSError, TimeoutError) as error:
        return [Diagnosis("nats-reachable", "error", f"NATS does not answer ({type(error).__name__})")]
    finally:
        await client.close()


async def _examine(client: Client, monitor: str) -> list[Diagnosis]:
    found = [version(client), payload(client)]
    stream = client.jetstream(timeout=ANSWER_S)
    try:
        account = await stream.account_info()
    except (ServiceUnavailableError, NotFoundError, NatsError, TimeoutError):
        words = "JetStream is off, or this user may not use it: there is no queue of work"
        return [*found, Diagnosis("nats-jetstream", "error", words, f"in nats.conf: {_SETTINGS}")]
    found.append(
        Diagnosis("nats-jetstream", "ok", f"JetStream is on, with {count(account.streams, 'stream')}")
    )
    found += [await queue(stream), *kept(await asked(monitor))]
    return found


def unreachable(why: str) -> Diagnosis:
    if why == "authorization":
        words, cure = "NATS refuses the user, the password or the token", "nats://user:password@host:port"
    else:
        words = f"NATS can not be reached ({why})"
        cure = "does it run, is the address right, may this machine reach it?"
    return Diagnosis("nats-reachable", "error", words, cure)


def version(client: Client) -> Diagnosis:
    found = client.connected_server_version
    said, wanted = f"{found.major}.{found.minor}.{found.patch}", ".".join(map(str, OLDEST))
    if (found.major, found.minor, found.patch) < OLDEST:
        words = f"NATS {said} may lose the queue and results when it is killed"
        return Diagnosis(
            "nats-version", "error", words, f"install {wanted} or newer; that of Debian 12 is too old"
        )
    return Diagnosis("nats-version", "ok", f"NATS {said} answers")


def payload(client: Client) -> Diagnosis:
    size, cure = client.max_payload, "max_payload: 8MB in nats.conf"
    if size < PAYLOAD_MIN:
        return Diagnosis("nats-payload", "error", f"it takes messages up to {size} bytes only", cure)
    words = f"it takes messages up to {size >> 20} MB"
    return Diagnosis(
        "nats-payload", "ok" if size >= PAYLOAD_GOOD else "info", words, cure if size < PAYLOAD_GOOD else None
    )


async def queue(stream: Any) -> Diagnosis:
    """The stream of work and its consumers, one for each pool."""
    try:
        about = await stream.stream_info(STREAM)
        consumers = await stream.consumers_info(STREAM)
    except NotFoundError:
        words = "there is no queue of work yet: the first server makes it"
        return Diagnosis("nats-queue", "info", words, "noetl server, noetl worker")
    stuck = [each.name for each in consumers if each.num_pending and not each.num_waiting]
    pools = ", ".join(f"{each.name} ({each.num_pending} waiting)" for each in consumers) or "none"
    words = f"{about.state.messages} pointers to work in the queue; pools: {pools}"
    if stuck:
        names = ", ".join(stuck)
        return Diagnosis(
            "nats-queue", "warning", f"{words}; nobody takes from {names}", f"noetl worker --pool {stuck[0]}"
        )
    return Diagnosis("nats-queue", "ok", words)


def kept(said: Kept | None) -> list[Diagnosis]:
    if said is None:
        words = "NATS does not tell here whether it syncs what it acknowledges, and where its store is"
        cure = f"see that nats.conf has {_SETTINGS}; or start it with -m {MONITOR_PORT}, or give --monitor"
        return [Diagnosis("nats-sync", "info", words, cure)]
    found = [Diagnosis("nats-sync", "ok", "sync_interval is always")]
    if not said.synced:
        words = "it acknowledges before it has synced: a power loss may take up to minutes of results"
        found = [
            Diagnosis("nats-sync", "warning", words, "sync_interval: always in nats.conf, or three replicas")
        ]
    if any(said.folder == each or said.folder.startswith(f"{each}/") for each in TEMPORARY):
        words = f"its store lies in a temporary folder: {said.folder}"
        found.append(Diagnosis("nats-store", "warning", words, f"in nats.conf: {_SETTINGS}"))
    else:
        found.append(Diagnosis("nats-store", "ok", f"its store is {said.folder}"))
    return found


async def asked(monitor: str) -> Kept | None:
    """What the monitor says; None: there is none that we may ask."""
    import aiohttp

    try:
        async with (
            asyncio.timeout(CONNECT_S),
            aiohttp.ClientSession() as session,
            session.get(f"{monitor.rstrip('/')}/varz", allow_redirects=False) as answer,
        ):
            body = b""
            while len(body) < MONITOR_BYTES_MAX and (chunk := await answer.content.read(1 << 16)):
                body += chunk
        match json.loads(body):
            case {"jetstream": {"config": {"store_dir": str(folder), **config}}}:
                return Kept(folder, bool(config.get("sync_always")))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        pass
    return None


def _monitor_of(server: str) -> str:
    host = urlsplit(server).hostname or "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{MONITOR_PORT}"
