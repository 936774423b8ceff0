"""Read-only checks of the NATS between servers and workers: version, limits, durability, queue."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError, ServiceUnavailableError

from noetl.adapters.nats.client import NatsClient
from noetl.adapters.nats.connection import NatsSettings
from noetl.adapters.nats.queue import STREAM
from noetl.errors import NoetlError
from noetl.net.describe import count
from noetl.runtime.doctor import Diagnosis

OLDEST: Final = (2, 10, 23)  # in older versions a kill could destroy the whole stream
CONNECT_S: Final = 3
ANSWER_S: Final = 5.0
PAYLOAD_MIN: Final = 1 << 20
PAYLOAD_GOOD: Final = 8 << 20
MONITOR_PORT: Final = 8222
MONITOR_BYTES_MAX: Final = 4 << 20
TEMPORARY: Final = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/folders")
_SETTINGS: Final = 'jetstream { store_dir: "/var/lib/nats", sync_interval: always }'


class JetStreamStore(NamedTuple):
    """How a NATS server stores acknowledged messages, according to its monitor."""

    folder: str
    synced: bool  # before each acknowledgement


async def check_nats(url: str, monitor: str | None) -> list[Diagnosis]:
    try:
        options = NatsSettings(url).resolve()
    except NoetlError as error:
        return [Diagnosis("nats-reachable", "error", str(error))]
    errors: list[str] = []

    async def on_error(error: Exception) -> None:
        errors.append("authorization" if "authorization" in str(error).lower() else type(error).__name__)

    try:
        client = NatsClient(secure=options.tls is not None)
        await client.connect(
            options.servers, name="noetl doctor",
            user=options.user, password=options.password, token=options.token,
            tls=options.tls, connect_timeout=CONNECT_S,
            max_reconnect_attempts=1, reconnect_time_wait=0, error_cb=on_error,
        )  # fmt: skip
    except (NatsError, OSError, TimeoutError) as error:
        # A refused user also closes the connection: the authorization error is the real reason.
        reason = "authorization" if "authorization" in errors else [type(error).__name__, *errors][-1]
        return [unreachable(reason)]
    try:
        return await _examine(client, monitor or _monitor_of(options.servers[0]))
    except (NatsError, OSError, TimeoutError) as error:
        return [Diagnosis("nats-reachable", "error", f"NATS does not answer ({type(error).__name__})")]
    finally:
        await client.close()


async def _examine(client: Client, monitor: str) -> list[Diagnosis]:
    found = [check_version(client), check_payload(client)]
    stream = client.jetstream(timeout=ANSWER_S)
    try:
        account = await stream.account_info()
    except (ServiceUnavailableError, NotFoundError, NatsError, TimeoutError):
        words = "JetStream is disabled, or this user has no access to it: the work queue needs it"
        return [*found, Diagnosis("nats-jetstream", "error", words, f"in nats.conf: {_SETTINGS}")]
    found.append(Diagnosis("nats-jetstream", "ok", f"JetStream is enabled, with {count(account.streams, 'stream')}"))
    found += [await check_queue(stream), *check_store(await fetch_store(monitor))]
    return found


def unreachable(reason: str) -> Diagnosis:
    if reason == "authorization":
        words, cure = "NATS refuses the user, the password or the token", "nats://user:password@host:port"
    else:
        words = f"NATS is unreachable ({reason})"
        cure = "check that it runs, that the address is right, and that no firewall blocks it"
    return Diagnosis("nats-reachable", "error", words, cure)


def check_version(client: Client) -> Diagnosis:
    found = client.connected_server_version
    text, wanted = f"{found.major}.{found.minor}.{found.patch}", ".".join(map(str, OLDEST))
    if (found.major, found.minor, found.patch) < OLDEST:
        words = f"NATS {text} may lose the queue and results when it is killed"
        cure = f"install {wanted} or newer; the package of Debian 12 is too old"
        return Diagnosis("nats-version", "error", words, cure)
    return Diagnosis("nats-version", "ok", f"NATS {text} answers")


def check_payload(client: Client) -> Diagnosis:
    size, cure = client.max_payload, "max_payload: 8MB in nats.conf"
    if size < PAYLOAD_MIN:
        return Diagnosis("nats-payload", "error", f"messages are limited to {size} bytes", cure)
    words = f"messages are limited to {size >> 20} MB"
    if size < PAYLOAD_GOOD:
        return Diagnosis("nats-payload", "info", words, cure)
    return Diagnosis("nats-payload", "ok", words)


async def check_queue(stream: Any) -> Diagnosis:
    """The work stream and its consumers, one for each pool."""
    try:
        about = await stream.stream_info(STREAM)
        consumers = await stream.consumers_info(STREAM)
    except NotFoundError:
        words = "there is no work queue yet: the first server creates it"
        return Diagnosis("nats-queue", "info", words, "noetl server, noetl worker")
    stuck = [each.name for each in consumers if each.num_pending and not each.num_waiting]
    pools = ", ".join(f"{each.name} ({each.num_pending} waiting)" for each in consumers) or "none"
    words = f"{about.state.messages} pointers in the work queue; pools: {pools}"
    if stuck:
        words += f"; no worker serves {', '.join(stuck)}"
        return Diagnosis("nats-queue", "warning", words, f"noetl worker --pool {stuck[0]}")
    return Diagnosis("nats-queue", "ok", words)


def check_store(store: JetStreamStore | None) -> list[Diagnosis]:
    if store is None:
        words = "unknown whether NATS syncs before it acknowledges, and where its store is"
        cure = f"verify that nats.conf has {_SETTINGS}; or start it with -m {MONITOR_PORT}, or give --monitor"
        return [Diagnosis("nats-sync", "info", words, cure)]
    found = [Diagnosis("nats-sync", "ok", "sync_interval is always")]
    if not store.synced:
        words = "NATS acknowledges before it syncs: a power loss may destroy minutes of results"
        found = [Diagnosis("nats-sync", "warning", words, "sync_interval: always in nats.conf, or three replicas")]
    if any(store.folder == each or store.folder.startswith(f"{each}/") for each in TEMPORARY):
        words = f"the store is in a temporary folder: {store.folder}"
        found.append(Diagnosis("nats-store", "warning", words, f"in nats.conf: {_SETTINGS}"))
    else:
        found.append(Diagnosis("nats-store", "ok", f"the store is {store.folder}"))
    return found


async def fetch_store(monitor: str) -> JetStreamStore | None:
    """The answer of the monitor; None: the monitor is unreachable."""
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
                return JetStreamStore(folder, bool(config.get("sync_always")))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        pass
    return None


def _monitor_of(server: str) -> str:
    host = urlsplit(server).hostname or "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{MONITOR_PORT}"
