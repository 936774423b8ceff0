"""The processes of `noetl server`, `worker` and `ui`: they run until a signal, and then stop cleanly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from noetl.addresses import is_loopback_host
from noetl.cli.execute import OK, UNAVAILABLE
from noetl.cli.interrupts import Interrupts
from noetl.defaults import POOL
from noetl.errors import NoetlError, Rejected, install_hint
from noetl.playbook.validation import NAME
from noetl.runtime.embedded import relax_collector
from noetl.runtime.instrumentation import Instrumentation, configure_logging
from noetl.runtime.settings import NATS, OIDC_ISSUER, Settings, database_path, database_url, nats_url
from noetl.runtime.sign_in import oidc_settings, public_url
from noetl.server.services import ServerSettings, Services
from noetl.server.sessions import SessionLimits
from noetl.session.errors import UsageError
from noetl.time_slice import shorten_time_slice

EXTRAS = install_hint("postgres", "nats")
_PR_SET_DUMPABLE = 4


class ServerCommand(NamedTuple):
    database: str | None
    nats: str | None
    host: str
    port: int
    auth: bool | None  # None: by the kind of database and the address
    name: str
    slots: int = 0  # concurrent calls in this process, on PostgreSQL; 0: worker processes run all tasks
    own: bool = False  # `noetl ui`: playbooks may do what `noetl run` may do


class WorkerCommand(NamedTuple):
    nats: str | None
    pool: str
    slots: int
    labels: tuple[str, ...]
    name: str


def run_server(options: ServerCommand, on_ready: Callable[[str], None] = lambda _: None) -> int:
    """`on_ready` receives the address."""
    url = database_url(options.database)
    settings = _server_settings(options, embedded=url is None)
    return _run(_serve(options, url, settings, on_ready))


def _server_settings(options: ServerCommand, *, embedded: bool) -> ServerSettings:
    """Raises UsageError."""
    if options.slots and embedded:
        raise UsageError("--slots needs PostgreSQL and NATS: a server with a database file runs all tasks itself")
    if options.own:  # no sign-in: the settings of a server do not matter
        return ServerSettings(open=_is_open(options, embedded=embedded))
    settings = Settings.from_environment()
    try:
        oidc, own_url, limits = oidc_settings(settings), public_url(settings), settings.session_limits_s
    except Rejected as error:
        raise UsageError(str(error)) from error
    is_open = _is_open(options, embedded=embedded, has_provider=oidc is not None)
    return ServerSettings(open=is_open, oidc=oidc, public_url=own_url, sessions=SessionLimits(*limits))


def _is_open(options: ServerCommand, *, embedded: bool, has_provider: bool = False) -> bool:
    """Without tokens only on a file, and only on a loopback address."""
    by_default = embedded and is_loopback_host(options.host) and not has_provider
    wanted = options.auth is False or (options.auth is None and by_default)
    if wanted and has_provider:
        raise UsageError(
            f"--open gives everyone access without a sign-in, but {OIDC_ISSUER} is set: leave out one of them"
        )
    if wanted and not embedded:
        raise UsageError("--open needs a database file: with PostgreSQL every client needs a token")
    if wanted and not is_loopback_host(options.host):
        raise UsageError(f"--open on {options.host} would give everyone access: leave it out, and create tokens")
    return wanted


async def _serve(
    options: ServerCommand, url: str | None, settings: ServerSettings, on_ready: Callable[[str], None]
) -> int:
    from noetl.background import BackgroundTasks
    from noetl.mcp.endpoint import McpEndpoint, is_installed
    from noetl.replay.trials import TrialProcesses
    from noetl.server.analysis_processes import AnalysisProcesses
    from noetl.server.app import context_of, make_app
    from noetl.server.http_server import HttpServer
    from noetl.telemetry.history import MetricsHistory

    async with _deployment(options, url) as (services, instruments, crashed):
        agents = McpEndpoint if is_installed() else None
        history, background = MetricsHistory(instruments.metrics, services.clock), BackgroundTasks()
        background.spawn(history.run())
        registry = instruments.registry()
        settings = settings._replace(
            registry=registry, history=history, agents=agents, trials=TrialProcesses(), analyses=AnalysisProcesses()
        )
        app = make_app(services, settings)
        serving = HttpServer(app, options.host, options.port, wrap=instruments.wrap)
        instruments.metrics.process.followers.read_from(lambda: len(context_of(app).streams))
        serving.start()
        access = "every user of this machine has full access" if settings.open else "clients need a token"
        if settings.oidc is not None:
            access += f", people sign in with {settings.oidc.label}"
        _print(f"ready: {serving.url} ({access})")
        on_ready(serving.url)
        try:
            return await _until_signal(crashed)
        finally:
            await background.cancel()
            await serving.stop()


@asynccontextmanager
async def _deployment(
    options: ServerCommand, url: str | None
) -> AsyncIterator[tuple[Services, Instrumentation, asyncio.Future[BaseException]]]:
    crashed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    if url is None:
        from noetl.runtime.local_server import open_local_server

        path, nats = database_path(options.database), nats_url(options.nats)
        shorten_time_slice()  # not beside PostgreSQL and NATS: more switches of processes would cost throughput there
        async with open_local_server(path, served=not options.own, nats=nats) as local:
            yield local.services, local.instruments, crashed
        return
    try:
        from noetl.runtime.server import ServerOptions, open_server
    except ImportError as error:
        raise UsageError(f"a server on PostgreSQL needs more packages: {EXTRAS}") from error

    nats = nats_url(options.nats)
    if nats is None:
        raise UsageError(f"a server on PostgreSQL needs NATS: --nats nats://host:port, or {NATS}")
    settings, lease_s, keep_days = _cluster_settings()
    server = ServerOptions(
        url, nats, options.name, settings.link_key or None, lease_s, keep_days, settings.pool_keys or None
    )
    on_error = [_reporting(crashed)]
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(open_server(server, on_error=on_error))
        if options.slots:
            from noetl.runtime.worker import WorkerOptions, open_worker

            # A server without a name may share its host's name with other servers: its worker needs another one.
            worker = WorkerOptions(
                nats, POOL, options.slots, options.name, {}, server.link_key, lease_s, None, server.pool_keys
            )
            await stack.enter_async_context(open_worker(worker, on_error=on_error, server=runtime))
        yield runtime.services, runtime.instruments, crashed


def run_worker(options: WorkerCommand) -> int:
    return _run(_work(options))


async def _work(options: WorkerCommand) -> int:
    try:
        from noetl.runtime.worker import WorkerOptions, open_worker
    except ImportError as error:
        raise UsageError(f"a worker needs more packages: {EXTRAS}") from error

    nats = nats_url(options.nats)
    if nats is None:
        raise UsageError(f"a worker needs NATS: --nats nats://host:port, or {NATS}")
    if not NAME.match(options.pool):
        raise UsageError(f'--pool "{options.pool}": a name of letters, digits, _ and -, such as gpu')
    labels = dict(_label(each) for each in options.labels)
    settings, lease_s, _ = _cluster_settings()
    worker = WorkerOptions(
        nats, options.pool, options.slots, options.name, labels, settings.link_key or None, lease_s,
        settings.pool_key or None, settings.pool_keys or None,
    )  # fmt: skip
    crashed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    async with open_worker(worker, on_error=[_reporting(crashed)]) as runtime:
        _print(f"ready: {runtime.name} serves the pool {options.pool} with {options.slots} slots")
        return await _until_signal(crashed)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f'--label "{text}": write KEY=VALUE')
    return key, value


def _cluster_settings() -> tuple[Settings, float, float | None]:
    """The settings, the lease in seconds, and the number of days to keep executions. Raises UsageError."""
    settings = Settings.from_environment()
    try:
        return settings, settings.lease_s, settings.keep_days
    except Rejected as error:
        raise UsageError(str(error)) from error


# Until a signal


def _reporting(crashed: asyncio.Future[BaseException]) -> Callable[[BaseException], None]:
    def report(error: BaseException) -> None:
        if not crashed.done():
            crashed.set_result(error)

    return report


async def _until_signal(crashed: asyncio.Future[BaseException]) -> int:
    """A signal ends the process cleanly; a crash of a background task ends it with a traceback."""
    relax_collector()
    with Interrupts(lambda: _print("stopping")) as interrupts:
        crashed.add_done_callback(lambda _: interrupts.first.set())
        await interrupts.first.wait()
        if crashed.done():
            raise crashed.result()
    return OK


def _run(work: Coroutine[Any, Any, int]) -> int:
    """On uvloop, if it is installed."""
    protect_memory()
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    try:
        stop = configure_logging(Settings.from_environment())
    except NoetlError as error:
        work.close()
        raise UsageError(str(error)) from error
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(work)
    except NoetlError as error:
        _print(str(error))
        return UNAVAILABLE
    finally:
        stop()


def protect_memory() -> None:
    """Hide memory and environment of this process from other processes of the same user, such as those of tasks.

    Root and processes with CAP_SYS_PTRACE can still read them. Only Linux has this.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _print(text: str) -> None:
    print(f"noetl: {text}", file=sys.stderr, flush=True)
