"""A session on a server, over HTTP: the server runs executions; facts are read raw and folded here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from noetl.api.admin import WhoamiResponse
from noetl.api.debugging import breakpoint_requests
from noetl.api.executions import ForkRequest, ForkResponse
from noetl.api.playbooks import CheckResponse, PlaybookTextRequest, RollbackRequest, RollbackResponse, to_problem
from noetl.client import Client, PlaybookRefused, StreamLine, fact_of
from noetl.client.remote_ports import RemoteLogs
from noetl.control.log_pages import fold_log, read_runs
from noetl.control.roles import INCLUDES
from noetl.engine import Event, apply
from noetl.engine.commands import SetBreakpoint
from noetl.engine.facts import ForChild, FrameParked
from noetl.engine.state import LIVE, State, Status
from noetl.errors import NotFound, PlaybookError, Problem, Rejected, Unavailable
from noetl.escape import one_line
from noetl.output import JSON
from noetl.playbook.source import Document, Scalar, Tree, parse
from noetl.playbook.source import Mapping as MappingTree
from noetl.playbook.source import Sequence as SequenceTree
from noetl.ports import LogRow
from noetl.session.catalog import PlaybookCatalog
from noetl.session.declared import WorkloadSource, declared_in, values_for
from noetl.session.errors import StartRefused, UsageError, unsupported
from noetl.session.execution import Execution, SessionVerbs, StartNotes, until_ended
from noetl.session.libs import parsed_with_libs, registered_with_libs
from noetl.session.protocol import GRACE_S, ForkSpec, NewToken, Observer
from noetl.session.sources import Dialect, PlaybookFile, find_registered, find_source
from noetl.views.envelopes import Envelope
from noetl.views.runs import Runs
from noetl.worker.frame_driver import LogLine

if TYPE_CHECKING:
    from noetl.api.admin import WorkersResponse
    from noetl.api.bulk import BulkItem, BulkRequest
    from noetl.client import HttpTransport
    from noetl.clock import Clock
    from noetl.fork.plan import ForkPlan
    from noetl.ports import ApiToken, Catalog, ExecutionHead, ExecutionListing, RoleGrant, SavedStore, SecretInfo
    from noetl.secret import Secret
    from noetl.session.debugger import Debugger
    from noetl.session.garbage import GarbageReport
    from noetl.session.protocol import LogReader, PrintedReader, ResultReader, TriggerAdmin
    from noetl.views.documents import ShowDocument

CHILDREN_MAX: Final = 16  # that are followed at once; of others only the wait of their caller is shown
QUIET_S: Final = 5.0  # without a fact; then the server is asked whether there is a worker
POLL_S: Final = 0.2
POLLS_MAX: Final = 100  # for a child that is about to be started


class ServerSecrets:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def set(self, name: str, value: str) -> int:
        return await self._client.set_credential(name, value)

    async def remove(self, name: str) -> None:
        await self._client.remove_credential(name)

    async def list(self) -> Sequence[SecretInfo]:
        return await self._client.credentials()

    async def rotate(self) -> int:
        raise unsupported("rotate")


class ServerTokens:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(
        self, name: str, scopes: frozenset[str], lasts_s: float | None, roles: Sequence[RoleGrant] = ()
    ) -> NewToken:
        made = await self._client.add_token(name, scopes, expires_in_s=lasts_s, roles=roles)
        known = {each.id: each for each in await self._client.tokens()}
        if made.id not in known:
            raise NotFound(f"the token {made.id} was created, and has been revoked meanwhile")
        return NewToken(known[made.id], made.token)

    async def list(self) -> list[ApiToken]:
        return await self._client.tokens()

    async def remove(self, id: str) -> None:
        await self._client.remove_token(id)


class RemoteSession(SessionVerbs):
    """Nothing is sent until a verb needs it."""

    runs_here = False
    untold: Mapping[str, Status] = MappingProxyType({})

    def __init__(
        self,
        url: str | HttpTransport,
        token: str | Secret | None = None,
        *,
        hint: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.client = Client(url, token, clock=clock)
        self.hint = hint
        self.playbooks = PlaybookCatalog(lambda: self.catalog, to_send=registered_with_libs)
        self._started: set[str] = set()  # executions whose facts no observer has seen yet
        self._observers: list[Observer] = []

    async def __aenter__(self) -> RemoteSession:
        return self

    async def drain(self, grace_s: float = GRACE_S) -> None:
        """The server continues."""
        del grace_s

    async def close(self) -> None:
        await self.client.close()

    async def scopes(self) -> frozenset[str]:
        granted = (await self.client.http.get("/whoami", WhoamiResponse)).scopes
        return frozenset(scope for each in granted for scope in INCLUDES.get(each, ()))

    # Ports

    @property
    def clock(self) -> Clock:
        return self.client.clock

    @property
    def listing(self) -> ExecutionListing:
        return self.client.listing

    @property
    def log(self) -> LogReader:
        return self.client.store

    @property
    def logs(self) -> PrintedReader:
        return RemoteLogs(self.client.http)

    @property
    def results(self) -> ResultReader:
        return self.client.results

    @property
    def catalog(self) -> Catalog:
        return self.client.catalog

    @property
    def triggers(self) -> TriggerAdmin:
        from noetl.session.triggers import ServerTriggers

        return ServerTriggers(self.client.http)

    @property
    def secrets(self) -> ServerSecrets:
        return ServerSecrets(self.client)

    @property
    def tokens(self) -> ServerTokens:
        return ServerTokens(self.client)

    @property
    def saved(self) -> SavedStore:
        return self.client.saved

    async def check_storage(self) -> list[str]:
        return []

    async def collect_garbage(self, older_than_s: float, *, dry_run: bool = False) -> GarbageReport:
        del older_than_s, dry_run
        raise unsupported("gc")

    # Start

    async def check(self, playbook: str | Path | PlaybookFile, *, dialect: Dialect = "canonical") -> list[Problem]:
        source = find_source(playbook)
        if isinstance(source, PlaybookFile):
            document, problems = parse(source.data, source.name)
            if not document.text:
                return list(problems)
            name, text = source.name, document.text
        else:
            found = await find_registered(self.catalog, source)
            name, text = found.path, found.text
        body = PlaybookTextRequest(text=text, dialect=dialect)
        answer = await self.client.http.request("POST", "/playbooks/check", body=body, retry=True, file=name)
        return [to_problem(each, name) for each in answer.read(CheckResponse).problems]

    async def start(
        self,
        playbook: str | Path | PlaybookFile,
        *,
        workload: WorkloadSource | None = None,
        ctx: WorkloadSource | None = None,
        labels: Mapping[str, str] | None = None,
        key: str | None = None,
        version: int | None = None,
        dialect: Dialect = "canonical",
        breakpoints: Sequence[SetBreakpoint] = (),
        secrets: Mapping[str, str] | None = None,
    ) -> Execution:
        source = find_source(playbook)
        if isinstance(source, str):
            text = await find_registered(self.catalog, source, version)
            document = parse(text.text, text.path).document
            declared = declared_in(document)
            values, first = values_for(workload, declared), values_for(ctx, declared)
            started = await self.client.start(
                workload=values, ctx=first, labels=labels, digest=text.digest, key=key, breakpoints=breakpoints,
                secrets=secrets,
            )  # fmt: skip
        else:
            if version is not None:
                raise UsageError(f"{source.name}: only registered playbooks have versions, files have none")
            document = await self._checked_document(source)
            declared = declared_in(document)
            values, first = values_for(workload, declared), values_for(ctx, declared)
            try:
                started = await self.client.start_text(
                    document.text,
                    values,
                    ctx=first,
                    labels=labels,
                    dialect=dialect,
                    file=source.name,
                    key=key,
                    breakpoints=breakpoints,
                    secrets=secrets,
                )
            except PlaybookError as error:
                id = error.execution_id if isinstance(error, PlaybookRefused) else None
                raise StartRefused(error.problems, document.text, id) from error
        self._started.add(started.execution_id)
        problems = tuple(to_problem(each, document.file) for each in started.problems or ())
        notes = StartNotes(problems, (), declared)
        return Execution(self, started.execution_id, notes)

    async def _checked_document(self, source: PlaybookFile) -> Document:
        """The server checks the text; here only that it is text, and that it can call its children."""
        document, problems = parse(source.data, source.name)
        if not document.text:
            raise StartRefused(problems, "")
        if source.origin is not None:
            await self._find_children(Path(source.origin).parent, document)
        return parsed_with_libs(document, source.origin)

    async def _find_children(self, folder: Path, document: Document) -> None:
        """A server cannot find playbooks that are called by their files. Raises UsageError."""
        for path, start in _called_paths(document.root):
            beside = folder / path
            if not beside.is_file():
                continue
            try:
                await self.catalog.versions(path)
            except NotFound:
                called = parse(beside.read_bytes(), str(beside)).document.find(("metadata", "path"))
                name = called.value if isinstance(called, Scalar) else None
                instead = f', and call it by its path "{one_line(str(name))}"' if name else ""
                file = Path(document.file).parent / path
                raise UsageError(
                    f'{document.mark(start)}: "{one_line(path)}" is a file beside this one, and not on the'
                    f" server: first noetl register {file}{self.hint}{instead}"
                ) from None

    # Reading

    async def read_runs(self, execution_id: str, up_to: int | None = None) -> Runs:
        runs = Runs(execution_id)
        await read_runs(self.log, runs, up_to)
        return runs

    async def show(self, execution_id: str) -> ShowDocument:
        """The server knows more than the log: whether there is a worker for what is due."""
        return await self.client.show(execution_id)

    async def follow(
        self, execution_id: str, after: int = 0, on_ownerless: Callable[[], None] | None = None
    ) -> AsyncIterator[list[LogRow]]:
        del on_ownerless  # another server takes over
        async for each in self.client.stream(execution_id, after):
            if isinstance(each, Envelope) and (event := fact_of(each)) is not None:
                yield [LogRow(event.seq, event.at, (event.fact,))]

    def observe(self, observer: Observer) -> None:
        self._observers.append(observer)

    async def rest(self, execution_id: str) -> Status:
        seen = FollowedExecution(execution_id, State(execution_id=execution_id))
        if execution_id not in self._started:
            await fold_log(self.log, execution_id, lambda event: apply(seen.state, event.fact, event.at))
            for observer in self._observers:
                observer.seed(seen)
        self._started.discard(execution_id)
        follower = _Follower(self.client, self._observers)
        try:
            await follower.follow(seen)
        finally:
            await follower.close()
        return (await self.listing.head(execution_id)).status

    # Commands

    async def pause(self, execution_id: str) -> Status:
        if (await self.listing.head(execution_id)).status != "paused":
            await self.client.pause(execution_id)
        return "paused"

    async def resume(self, execution_id: str) -> None:
        head = await self.listing.head(execution_id)
        if head.status not in LIVE:
            raise Rejected("execution-over", f"it has ended: {head.status}")
        if head.status == "paused":
            await self.client.resume(execution_id)

    async def retry(
        self, execution_id: str, step: str | None = None, *, iterations: Sequence[int] = (), from_start: bool = False
    ) -> None:
        await Execution(self, execution_id).require_started()
        await self.client.retry(execution_id, step, iterations=iterations, from_start=from_start)

    def credentials(self) -> None:
        return None  # a server never hands them out

    async def plan_fork(self, execution_id: str, wanted: ForkSpec) -> ForkPlan:
        request, name, text = await self._fork(execution_id, wanted)
        return (await self._send_fork(execution_id, replace(request, dry_run=True), name, text)).plan

    async def fork(self, execution_id: str, wanted: ForkSpec) -> Execution:
        request, name, text = await self._fork(execution_id, wanted)
        answer = await self._send_fork(execution_id, request, name, text)
        assert isinstance(answer.execution_id, str), "only a dry run starts nothing"
        self._started.add(answer.execution_id)
        return Execution(self, answer.execution_id)

    async def _send_fork(self, execution_id: str, request: ForkRequest, name: str, text: str) -> ForkResponse:
        try:
            return await self.client.fork(execution_id, request, name)
        except PlaybookError as error:
            raise StartRefused(error.problems, text, None) from error

    async def _fork(self, execution_id: str, wanted: ForkSpec) -> tuple[ForkRequest, str, str]:
        """The request, and the name and the text of the playbook."""
        source = None if wanted.playbook is None else find_source(wanted.playbook)
        if isinstance(source, PlaybookFile):
            document = await self._checked_document(source)
            request = ForkRequest(text=document.text, dialect=wanted.dialect)
        else:
            if source is None:
                found = await self.catalog.get((await self.listing.head(execution_id)).digest)
            else:
                found = await find_registered(self.catalog, source)
            document, request = parse(found.text, found.path).document, ForkRequest(digest=found.digest)
        request = replace(
            request,
            at=wanted.at,
            from_step=wanted.from_step,
            failed_only=wanted.failed_only,
            workload=values_for(wanted.workload, declared_in(document)),
            labels=dict(wanted.labels),
            breakpoints=breakpoint_requests(wanted.breakpoints),
            secrets=dict(wanted.secrets),
        )
        return request, document.file, document.text

    async def cancel(self, execution_id: str, reason: str = "", *, compensate: bool = False) -> Status:
        if compensate or (await self.listing.head(execution_id)).status != "cancelling":
            await self.client.cancel(execution_id, reason, compensate=compensate)
        return await until_ended(self, execution_id)

    async def signal(self, execution_id: str, name: str, data: JSON = None, *, frame: str | None = None) -> bool:
        await self.client.signal(execution_id, name, data, frame=frame)
        return True

    def debugger(self, execution_id: str) -> Debugger:
        from noetl.session.debugger import RemoteDebugger

        return RemoteDebugger(self.client.http, execution_id)

    async def label(self, execution_id: str, change: Mapping[str, str | None]) -> dict[str, str]:
        return (await self.client.label(execution_id, change)).labels

    async def delete(self, execution_id: str) -> int:
        return await self.client.delete(execution_id)

    async def bulk(self, request: BulkRequest) -> list[BulkItem]:
        return list((await self.client.bulk(request)).items)

    async def rollback(self, path: str, version: int, *, dry_run: bool = False) -> RollbackResponse:
        body = RollbackRequest(path=path, version=version, dry_run=dry_run)
        return (await self.client.http.request("POST", "/playbooks/rollback", body=body)).read(RollbackResponse)

    async def workers(self) -> WorkersResponse:
        from noetl.api.admin import WorkersResponse

        return await self.client.http.get("/workers", WorkersResponse)

    def detach(self) -> None:
        """Executions of a server continue anyway."""


def _called_paths(tree: Tree | None) -> Iterator[tuple[str, int]]:
    """The paths of the playbooks that tasks call, and the position of each in the text."""
    match tree:
        case MappingTree(entries=entries):
            match entries.get("kind"), entries.get("path"):
                case Scalar(value="playbook"), Scalar(value=str(path), start=start) if "{{" not in path:
                    yield path, start
            for each in entries.values():
                yield from _called_paths(each)
        case SequenceTree(items=items):
            for each in items:
                yield from _called_paths(each)


# Following an execution with its children


class FollowedExecution(NamedTuple):
    """An execution as its log shows it."""

    id: str
    state: State


class _Follower:
    """Streams the facts of an execution, and of some of the executions that it calls, to observers."""

    def __init__(self, client: Client, observers: Sequence[Observer]) -> None:
        self._client = client
        self._observers = observers
        self._children: dict[str, asyncio.Task[None]] = {}
        self._worker_check: asyncio.Task[None] | None = None

    async def follow(self, seen: FollowedExecution) -> None:
        """Until it has ended or is paused."""
        self._worker_check = asyncio.ensure_future(self._look_for_workers(seen))
        async for each in self._client.stream(seen.id, seen.state.seq):
            self._notify(seen, each)
            # The stream may replay a pause that is over already.
            if seen.state.status == "paused" and (await self._head(seen.id)).status == "paused":
                return

    async def _head(self, id: str) -> ExecutionHead:
        return await self._client.listing.head(id)

    async def close(self) -> None:
        tasks = [*self._children.values(), *([] if self._worker_check is None else [self._worker_check])]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _notify(self, seen: FollowedExecution, streamed: object) -> None:
        if isinstance(streamed, StreamLine):
            for observer in self._observers:
                observer.hear(LogLine(seen.id, streamed.frame, streamed.kind, streamed.words))
        elif isinstance(streamed, Envelope) and (event := fact_of(streamed)) is not None:
            apply(seen.state, event.fact, event.at)
            for observer in self._observers:
                observer.watch(seen, [event])
            self._follow_called(event)

    def _follow_called(self, event: Event) -> None:
        if isinstance(event.fact, FrameParked) and isinstance(event.fact.until, ForChild):
            child = event.fact.until.execution_id
            if child not in self._children and len(self._children) < CHILDREN_MAX:
                self._children[child] = asyncio.ensure_future(self._follow_child(child))

    async def _follow_child(self, id: str) -> None:
        """A child that cannot be followed is not shown; its caller is."""
        seen = FollowedExecution(id, State(execution_id=id))
        with suppress(Unavailable, NotFound, Rejected):
            await self._wait_for_start(id)
            async for each in self._client.stream(id):
                self._notify(seen, each)
        self._children.pop(id, None)

    async def _wait_for_start(self, id: str) -> None:
        """A child is started after its caller is parked. Raises NotFound when it never is."""
        for _ in range(POLLS_MAX):
            with suppress(NotFound):
                await self._head(id)
                return
            await self._client.clock.sleep(POLL_S)
        raise NotFound(f"no execution {id}")

    async def _look_for_workers(self, seen: FollowedExecution) -> None:
        """No log shows whether a worker exists for what is due, so a quiet execution is asked about."""
        while True:
            seq = seen.state.seq
            await self._client.clock.sleep(QUIET_S)
            if seen.state.seq > seq or not seen.state.runs:
                continue
            with suppress(Unavailable, NotFound, Rejected):
                for step in (await self._client.show(seen.id)).steps:
                    if step.status in ("scheduled", "running") and step.why is not None:
                        for observer in self._observers:
                            observer.wait(step.id, step.why)
