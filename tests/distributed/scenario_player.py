"""Play a scenario in a real deployment: commands go through the API, reports are answers of an HTTP server.

The scenario player goes first; after each command the test waits until the log of the deployment has the same facts.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from noetl.client import Client, fact_of
from noetl.engine import Event
from noetl.engine.commands import Change, ClearBreakpoint, Release, SetBreakpoint
from noetl.engine.facts import Fact, ForChild, ForTime, FrameParked, FrameResumed, TaskStarted
from noetl.engine.moves import RunTask, due, work_of
from noetl.engine.pipeline import next_move
from noetl.errors import Rejected
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.ports import LogRow, SavedValue
from noetl.session.debugger import RemoteDebugger
from noetl.testing.scenario import ANSWER, HEAD, Player, debug_command, describe_fact, retry_of
from noetl.views.envelopes import Envelope
from tests.distributed.final_states import final

PATIENCE_S = 180.0
ENTRIES_MAX = 30  # limit of entries into one task of a frame
_MADE = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|^\d{4}-\d\d-\d\dT[\d:.]+Z$")  # ids and instants
COMMANDS = ("start", "pause", "resume", "cancel", "retry", "signal")
DEBUGGING = ("break", "clear", "release", "step", "change")
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: PATH}
workflow:
- step: start
  tool: {kind: http, method: POST, url: "URL"}
"""


class Scenario(NamedTuple):
    """The content of a scenario file. `answers`: the output of the engine after each command."""

    name: str
    body: str
    commands: list[str]
    answers: list[list[str]]


def scenario(name: str, text: str) -> Scenario:
    lines = text.splitlines()
    place = lines.index("playbook") + 1
    body: list[str] = []
    while place < len(lines) and (lines[place].startswith("  ") or not lines[place]):
        body.append(lines[place][2:])
        place += 1
    commands: list[str] = []
    answers: list[list[str]] = []
    answering = False
    for line in lines[place:]:
        if line == ANSWER:
            answering = True
            answers.append([])
        elif not line:
            answering = False
        elif answering:
            answers[-1].append(line)
        elif not line.startswith("#"):
            commands.append(line)
    return Scenario(name, "\n".join(body), commands, answers)


def with_url(text: str, url: str) -> str:
    """Replace all calls of the playbook by HTTP requests to `url`, which have an idempotency key."""
    text = text.replace("https://example.org/", "")
    text = re.sub(r"\burl: (\w+)", r'url: "\1"', text)
    text = re.sub(r'\burl: "', f'url: "{url}/', text)
    text = re.sub(r"\bkind: http(?=[,}])", "kind: http, method: POST", text)
    return re.sub(r"^( *(?:- )?)kind: http$", _block_style, text, flags=re.M)


def _block_style(found: re.Match[str]) -> str:
    return f"{found[0]}\n{' ' * len(found[1])}method: POST"


class Answers:
    """An HTTP server that holds every request until the test supplies its answer."""

    def __init__(self) -> None:
        self.url = ""
        self._waiting: dict[str, list[asyncio.Future[web.Response]]] = {}  # by idempotency key
        self._news = asyncio.Condition()

    async def handle(self, request: web.Request) -> web.Response:
        answer: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
        async with self._news:
            self._waiting.setdefault(request.headers["Idempotency-Key"], []).append(answer)
            self._news.notify_all()
        return await answer

    async def request(self, keys: set[str]) -> asyncio.Future[web.Response]:
        """The oldest waiting request with one of these keys. A worker may have cancelled an earlier one."""
        async with self._news:
            await self._news.wait_for(lambda: self._open(keys))
            return self._open(keys)[0]

    def _open(self, keys: set[str]) -> list[asyncio.Future[web.Response]]:
        known = [key for key in self._waiting if key in keys]
        return [each for key in known for each in self._waiting[key] if not each.done()]


@asynccontextmanager
async def answering() -> AsyncIterator[Answers]:
    answers = Answers()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answers.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    answers.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield answers
    finally:
        await runner.cleanup()


def _response(report: str) -> web.Response:
    """The answer of the server for the words of a report."""
    status, _, rest = report.partition(" ")
    if status == "ok":
        return web.json_response(json.loads(rest)) if rest else web.Response(status=200)
    own = json.loads(rest.partition(" ")[2] or "{}")
    return web.Response(status=own.get("http", {}).get("status", 500))


class Play:
    """One execution of a scenario, and the player that goes before it."""

    def __init__(self, scenario: Scenario, client: Client, answers: Answers, kinds: Kinds) -> None:
        self.scenario, self.client, self.answers = scenario, client, answers
        self.body = with_url(scenario.body, answers.url)
        self.player = Player(self.body, kinds)
        self.id = ""
        self.events: list[Event] = []
        self.children: dict[str, str] = {}  # frame → the child execution that it started last
        self._news = asyncio.Condition()
        self._following: asyncio.Task[None] | None = None

    async def play(self) -> dict[str, JSON]:
        """Play all commands; returns the final state when the log has every fact of the player."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                for command, answer in zip(self.scenario.commands, self.scenario.answers, strict=True):
                    self.player.play(_of_kind_http(command))
                    refused = next((line for line in answer if line.startswith("rejected ")), None)
                    if "already recorded" not in answer:  # the API cannot repeat such a command
                        await self._command(command, refused and refused.split()[1].rstrip(":"))
                    await self._until(lambda: not self._missing())
                    await self._until_requested()
        except TimeoutError:
            raise AssertionError(f"the log lacks {self._missing()}; it has {self._names(self.events)}") from None
        finally:
            if self._following is not None:
                self._following.cancel()
                await asyncio.gather(self._following, return_exceptions=True)
        return without_messages(final(self.id, await self.client.store.read(self.id)))

    def expected(self) -> dict[str, JSON]:
        """The final state in the log of the player."""
        rows = [LogRow(event.seq, event.at, (event.fact,)) for event in self.player.log]
        return without_messages(final("e", rows))

    # Commands

    async def _command(self, command: str, refused: str | None) -> None:
        verb, _, rest = command.partition(" ")
        word, _, more = rest.partition(" ")
        if verb == "report":
            await self._answer(self._keys(word), more)
        elif verb == "wake" and more:
            await self._answer(_keys(self.children[word], "start#1", {"start_task"}), more)
        elif verb in (*COMMANDS, *DEBUGGING):
            code = await self._refusal(verb, rest)
            assert code == refused, f"{command}: {code}, and not {refused}"
            if verb == "retry" and refused is None:
                self._follow()
        elif verb == "running":  # the server holds the request for so long that the worker reports it
            started = next(event for event in reversed(self.player.log) if isinstance(event.fact, TaskStarted))
            await self._until(lambda: _named(started.fact) in self._names(self.events))
        else:
            assert verb in ("begin", "after", "expire", "wake", "close", "permit"), (
                command
            )  # the deployment does this automatically after some time

    async def _refusal(self, verb: str, rest: str) -> str | None:
        """None: the command was accepted."""
        try:
            await self._ask(verb, rest)
        except Rejected as error:
            return error.code
        return None

    async def _ask(self, verb: str, rest: str) -> None:
        match verb:
            case "start":
                word, _, more = rest.partition(" ")
                if word == "--saved":
                    await self._save(json.loads(more))
                ctx = json.loads(more) if word == "--ctx" else None
                points = [SetBreakpoint(place=more)] if word == "--break" else []
                await self._start({} if word.startswith("--") else json.loads(rest or "{}"), ctx, points)
            case "pause":
                await self.client.pause(self.id)
            case "resume":
                await self.client.resume(self.id)
            case "cancel":
                word, _, more = rest.partition(" ")
                asked = word == "--compensate"
                await self.client.cancel(self.id, more if asked else rest, compensate=asked)
            case "signal":
                name, _, data = rest.partition(" ")
                await self.client.signal(self.id, name, json.loads(data or "null"))
            case "retry":
                retry = retry_of(rest.split())
                await self.client.retry(self.id, retry.step, iterations=retry.iterations, from_start=retry.from_start)
            case _:
                await self._debug(verb, rest)

    async def _debug(self, verb: str, rest: str) -> None:
        debugger = RemoteDebugger(self.client.http, self.id)
        word, _, more = rest.partition(" ")
        match debug_command(verb, word, more):
            case SetBreakpoint(place=place, when=when, once=once):
                await debugger.set_breakpoint(place, when, once=once)
            case ClearBreakpoint(place=cleared):
                await debugger.clear_breakpoint(cleared)
            case Release(at=str(at), step=True):
                await debugger.step(at)
            case Release(at=released):
                await debugger.release(released)
            case Change(at=changed, set=values):
                await debugger.change(changed, values)

    async def _save(self, values: dict[str, JSON]) -> None:
        """The execution starts with these values, and with no others of an earlier one."""
        path, now = f"scenarios/{self.scenario.name}", self.client.clock.now()
        for each in await self.client.saved.current(path):
            await self.client.saved.put(path, each._replace(removed=True))
        for key, value in values.items():
            await self.client.saved.put(path, SavedValue(key, value, now))

    async def _start(
        self, workload: dict[str, JSON], ctx: dict[str, JSON] | None, breakpoints: list[SetBreakpoint]
    ) -> None:
        for path in sorted(set(re.findall(r"\bpath: ([\w/]+)", self.body))):
            await self.client.register(CHILD.replace("PATH", path).replace("URL", self.answers.url))
        text = HEAD.replace("path: scenario", f"path: scenarios/{self.scenario.name}") + self.body
        registered = await self.client.register(text)
        started = await self.client.start(digest=registered.digest, workload=workload, ctx=ctx, breakpoints=breakpoints)
        self.id = started.execution_id
        self._follow()

    async def _answer(self, keys: set[str], report: str) -> None:
        (await self._request(keys)).set_result(_response(report))

    async def _until_requested(self) -> None:
        """Wait for the requests of all frames that have a call in the player."""
        for frame in list(due(self.player.state)):
            move = next_move(work_of(self.player.program, self.player.state, frame), self.player.at)
            if isinstance(move, RunTask):  # it is not waiting for a retry
                await self._request(self._keys(frame))

    async def _request(self, keys: set[str]) -> asyncio.Future[web.Response]:
        """Wait for a request of the deployment, or fail when the execution has ended."""
        assert self._following is not None
        request = asyncio.ensure_future(self.answers.request(keys))
        await asyncio.wait({request, self._following}, return_when=asyncio.FIRST_COMPLETED)
        if not request.done():
            request.cancel()
            raise AssertionError(f"the execution has ended with other facts: {dict(self.beyond())}")
        return request.result()

    def _keys(self, frame: str) -> set[str]:
        """The keys of all calls that the frame may make."""
        program = self.player.program
        pipelines = [*(step.pipeline for step in program.steps.values()), *program.blocks.values()]
        names = {task.name for pipeline in pipelines for task in pipeline.tasks}
        return _keys(self.id, frame, names)

    # The log

    def _follow(self) -> None:
        if self._following is not None:
            self._following.cancel()
        self._following = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        async for each in self.client.stream(self.id, self.events[-1].seq if self.events else 0):
            if isinstance(each, Envelope) and (event := fact_of(each)) is not None:
                async with self._news:
                    self.events.append(event)
                    if isinstance(event.fact, FrameParked) and isinstance(event.fact.until, ForChild):
                        self.children[event.fact.frame] = event.fact.until.execution_id
                    self._news.notify_all()

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with self._news:
            await self._news.wait_for(holds)

    def _names(self, events: list[Event]) -> Counter[tuple[str, str]]:
        return Counter(_named(event.fact) for event in events if not _is_pause(event.fact))

    def _missing(self) -> Counter[tuple[str, str]]:
        """Facts that the player has and the log has not; pure tasks are reported with the next call."""
        missing = self._names(self.player.log) - self._names(self.events)
        frames = tuple(f"{frame}/" for frame in due(self.player.state))
        return Counter({(name, what): n for (name, what), n in missing.items() if not _is_of_call(what, frames)})

    def beyond(self) -> Counter[tuple[str, str]]:
        """Facts that the log has and the player has not, except starts of steps and calls, which depend on the time."""
        beyond = self._names(self.events) - self._names(self.player.log)
        return Counter({name: n for name, n in beyond.items() if name[0] not in ("step.started", "task.started")})


def _keys(execution_id: str, frame: str, tasks: set[str]) -> set[str]:
    """The idempotency keys of the calls of a frame."""
    entries = (f"{execution_id}/{frame}/{task}/{entry}" for task in tasks for entry in range(ENTRIES_MAX))
    return {hashlib.sha256(each.encode()).hexdigest() for each in entries}


def _is_pause(fact: Fact) -> bool:
    """A worker parks a frame that waits for long, which the player does not."""
    match fact:
        case FrameParked(until=ForTime()) | FrameResumed(output=None, run=None):
            return True
    return False


def _named(fact: Fact) -> tuple[str, str]:
    """The name and subject of a fact, without the tokens of a join, which arrive in any order."""
    name, what, *_ = describe_fact(fact)
    return name, ", ".join(sorted(what.split(", ")))


def _is_of_call(subject: str, frames: tuple[str, ...]) -> bool:
    return subject.startswith(frames) and subject.rpartition("/")[2].isdigit()


def _of_kind_http(command: str) -> str:
    """All failures of a real server have the kind http."""
    return re.sub(r"^(report \S+ error) (?!http)\w+", r"\1 http", command)


def without_messages(made: dict[str, JSON]) -> dict[str, JSON]:
    """Remove the messages of failures and the status in `http`, which differ between server and player."""

    def walk(value: Any) -> Any:
        match value:
            case dict():
                return {key: walk(each) for key, each in value.items() if key != "http"}
            case list():
                return [walk(each) for each in value]
            case "scheduled":
                return "running"  # in the player, a step starts with the report of its first call
            case str():
                return _MADE.sub("…", re.sub(r"HTTP \d+[\w ]* from POST \S+", "it did not work", value))
        return value

    cleaned: dict[str, JSON] = walk(made)
    return cleaned
