"""`noetl server` and `noetl worker`: a process that serves until it is told to go, and then goes cleanly."""

from __future__ import annotations

import asyncio
import ipaddress
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from noetl.cli.exits import AWAY, OK, Usage
from noetl.cli.interrupts import Interrupts
from noetl.errors import NoetlError, Rejected, install_hint
from noetl.playbook.validation import NAME
from noetl.runtime import relax_collector
from noetl.runtime.instrumentation import Instrumentation, configure_logging
from noetl.runtime.settings import NATS, Settings, database_path, database_url, nats_url
from noetl.server.services import Services

EXTRAS = install_hint("postgres", "nats")


class ServeAsked(NamedTuple):
    database: str | None
    nats: str | None
    host: str
    port: int
    auth: bool | None  # None: as is usual
    name: str
    own: bool = False  # for whoever owns file and machine: what `noetl run` may do may be done


class WorkAsked(NamedTuple):
    nats: str | None
    pool: str
    slots: int
    labels: tuple[str, ...]
    name: str


def run_server(asked: ServeAsked, on_ready: Callable[[str], None] = lambda _: None) -> int:
    """`on_ready` is told its address."""
    url = database_url(asked.database)
    is_open = _is_open(asked, embedded=url is None)
    return _run(_serve(asked, url, is_open, on_ready))


def _is_open(asked: ServeAsked, *, embedded: bool) -> bool:
    """Without tokens only on a file, and only for this machine."""
    wanted = asked.auth is False or (asked.auth is None and embedded and _is_loopback(asked.host))
    if wanted and not embedded:
        raise Usage("--open is for a server on a file: with PostgreSQL everyone needs a token")
    if wanted and not _is_loopback(asked.host):
        raise Usage(f"--open on {asked.host} would let everyone in: leave it out, and create tokens")
    return wanted


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _serve(asked: ServeAsked, url: str | None, is_open: bool, on_ready: Callable[[str], None]) -> int:
    from noetl.server.app import context_of, make_app
    from noetl.server.http_server import HttpServer
    from noetl.server.services import ServerSettings

    async with _house(asked, url) as (desk, instruments, fallen):
        settings = ServerSettings(open=is_open, registry=instruments.registry())
        app = make_app(desk, settings)
        serving = HttpServer(app, asked.host, asked.port, wrap=instruments.wrap)
        instruments.metrics.process.followers.read_from(lambda: len(context_of(app).streams))
        serving.start()
        who = "everyone on this machine may do everything" if is_open else "tokens are asked for"
        _say(f"ready: {serving.url} ({who})")
        on_ready(serving.url)
        try:
            return await _until_told(fallen)
        finally:
            await serving.stop()


@asynccontextmanager
async def _house(
    asked: ServeAsked, url: str | None
) -> AsyncIterator[tuple[Services, Instrumentation, asyncio.Future[BaseException]]]:
    fallen: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    if url is None:
        from noetl.runtime.local_server import open_local_server

        async with open_local_server(database_path(asked.database), served=not asked.own) as local:
            yield local.services, local.instruments, fallen
        return
    try:
        from noetl.runtime.server import ServerOptions, open_server
    except ImportError as error:
        raise Usage(f"a server on PostgreSQL needs extras: {EXTRAS}") from error

    nats = nats_url(asked.nats)
    if nats is None:
        raise Usage(f"where do servers and workers meet? --nats nats://host:port, or {NATS}")
    link_key, lease_s, keep_days = _cluster_settings()
    wanted = ServerOptions(url, nats, asked.name, link_key, lease_s, keep_days)
    async with open_server(wanted, on_error=[_telling(fallen)]) as house:
        yield house.services, house.instruments, fallen


def run_worker(asked: WorkAsked) -> int:
    return _run(_work(asked))


async def _work(asked: WorkAsked) -> int:
    try:
        from noetl.runtime.worker import WorkerOptions, open_worker
    except ImportError as error:
        raise Usage(f"a worker needs extras: {EXTRAS}") from error

    nats = nats_url(asked.nats)
    if nats is None:
        raise Usage(f"where does the work come from? --nats nats://host:port, or {NATS}")
    if not NAME.match(asked.pool):
        raise Usage(f'--pool "{asked.pool}": a name of letters, digits, _ and -, such as gpu')
    labels = dict(_label(each) for each in asked.labels)
    link_key, lease_s, _ = _cluster_settings()
    wanted = WorkerOptions(nats, asked.pool, asked.slots, asked.name, labels, link_key, lease_s)
    fallen: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    async with open_worker(wanted, on_error=[_telling(fallen)]) as crew:
        _say(f"ready: {crew.name} works for the pool {asked.pool}, {asked.slots} calls at once")
        return await _until_told(fallen)


def _label(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise Usage(f'--label "{given}": write KEY=VALUE')
    return key, value


def _cluster_settings() -> tuple[str | None, float, float | None]:
    """The link key, the lease in seconds, and the days that executions are kept."""
    settings = Settings.from_environment()
    try:
        return settings.link_key or None, settings.lease_s, settings.keep_days
    except Rejected as error:
        raise Usage(str(error)) from error


# Until someone wants it to stop


def _telling(fallen: asyncio.Future[BaseException]) -> Callable[[BaseException], None]:
    def tell(error: BaseException) -> None:
        if not fallen.done():
            fallen.set_result(error)

    return tell


async def _until_told(fallen: asyncio.Future[BaseException]) -> int:
    """A signal ends it well; a bug of ours ends it loudly, and whoever watches starts it again."""
    relax_collector()
    with Interrupts(lambda: _say("stopping")) as interrupts:
        fallen.add_done_callback(lambda _: interrupts.first.set())
        await interrupts.first.wait()
        if fallen.done():
            raise fallen.result()
    return OK


def _run(work: Coroutine[Any, Any, int]) -> int:
    """On the quickest loop there is."""
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    try:
        stop = configure_logging(Settings.from_environment())
    except NoetlError as error:
        work.close()
        raise Usage(str(error)) from error
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(work)
    except NoetlError as error:
        _say(str(error))
        return AWAY
    finally:
        stop()


def _say(words: str) -> None:
    print(f"noetl: {words}", file=sys.stderr, flush=True)
