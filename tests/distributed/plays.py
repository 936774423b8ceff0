"""A scenario played in a real house: its commands by the API, its reports as answers of a real HTTP server.

The player of scenarios goes ahead; after each command the house is waited for until its log has the same facts.
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
from noetl.engine.facts import Fact, ForChild, ForTime, FrameParked, FrameResumed
from noetl.engine.moves import RunTask
from noetl.engine.pipeline import next_move
from noetl.engine.work import due, work_of
from noetl.errors import Rejected
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.ports import LogRow
from noetl.testing.fact_text import tell
from noetl.testing.scenario import ANSWER, HEAD, Player
from noetl.views.envelopes import Envelope
from tests.distributed.finals import final

PATIENCE_S = 180.0
ENTRIES_MAX = 30  # into one task of a frame, that are told apart
_MADE = re.compile(
    r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|^\d{4}-\d\d-\d\dT[\d:.]+Z$"
)  # ids and instants
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: PATH}
workflow:
- step: start
  tool: {kind: http, method: POST, url: "URL"}
"""


class Scenario(NamedTuple):
    """What is read from its file. `answers`: what the engine tells after each command."""

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
    """Every call of the playbook goes to `url`, and is one that carries an idempotency key."""
    text = text.replace("https://example.org/", "")
    text = re.sub(r"\burl: (\w+)", r'url: "\1"', text)
    text = re.sub(r'\burl: "', f'url: "{url}/', text)
    text = re.sub(r"\bkind: http(?=[,}])", "kind: http, method: POST", text)
    return re.sub(r"^( *(?:- )?)kind: http$", _block_style, text, flags=re.M)


def _block_style(found: re.Match[str]) -> str:
    return f"{found[0]}\n{' ' * len(found[1])}method: POST"


class Answers:
    """A server that keeps every request until it is told what to say to it."""

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

    async def asked(self, keys: set[str]) -> asyncio.Future[web.Response]:
        """The oldest request with one of these keys that still waits: one may have been given up."""
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


def _response(told: str) -> web.Response:
    """A report's words as an answer of a server."""
    status, _, rest = told.partition(" ")
    if status == "ok":
        return web.json_response(json.loads(rest)) if rest else web.Response(status=200)
    own = json.loads(rest.partition(" ")[2] or "{}")
    return web.Response(status=own.get("http", {}).get("status", 500))


class Play:
    """One execution of a scenario, and the player that goes ahead of it."""

    def __init__(self, told: Scenario, client: Client, answers: Answers, kinds: Kinds) -> None:
        self.told, self.client, self.answers = told, client, answers
        self.body = with_url(told.body, answers.url)
        self.player = Player(self.body, kinds)
        self.id = ""
        self.events: list[Event] = []
        self.children: dict[str, str] = {}  # frame → the execution that it called last
        self._news = asyncio.Condition()
        self._following: asyncio.Task[None] | None = None

    async def play(self) -> dict[str, JSON]:
        """What it comes to in the house, when that has every fact that the player has."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                for command, answer in zip(self.told.commands, self.told.answers, strict=True):
                    self.player.play(_of_kind_http(command))
                    refused = next((line for line in answer if line.startswith("rejected ")), None)
                    if "on record already" not in answer:  # nobody can repeat it here
                        await self._command(command, refused and refused.split()[1].rstrip(":"))
                    await self._until(lambda: not self._missing())
                    await self._until_asked()
        except TimeoutError:
            raise AssertionError(
                f"it does not come to {self._missing()}; it has {self._names(self.events)}"
            ) from None
        finally:
            if self._following is not None:
                self._following.cancel()
                await asyncio.gather(self._following, return_exceptions=True)
        return without_messages(final(self.id, await self.client.store.read(self.id)))

    def expected(self) -> dict[str, JSON]:
        """The same by the player's log."""
        rows = [LogRow(event.seq, event.at, (event.fact,)) for event in self.player.log]
        return without_messages(final("e", rows))

    # Commands

    async def _command(self, command: str, refused: str | None) -> None:
        verb, _, rest = command.partition(" ")
        word, _, more = rest.partition(" ")
        if verb == "start":
            await self._start(json.loads(rest or "{}"))
        elif verb == "report":
            await self._answer(self._keys(word), more)
        elif verb == "wake" and more:
            await self._answer(_keys(self.children[word], "start#1", {"start_task"}), more)
        elif verb in ("pause", "resume", "cancel", "retry"):
            code = await self._refusal(verb, rest)
            assert code == refused, f"{command}: {code}, and not {refused}"
            if verb == "retry" and refused is None:
                self._follow()
        else:
            assert verb in ("after", "expire", "wake", "close"), (
                command
            )  # what the house does by itself, in time

    async def _refusal(self, verb: str, rest: str) -> str | None:
        """None: it was done."""
        try:
            await self._ask(verb, rest)
        except Rejected as error:
            return error.code
        return None

    async def _ask(self, verb: str, rest: str) -> None:
        match verb:
            case "pause":
                await self.client.pause(self.id)
            case "resume":
                await self.client.resume(self.id)
            case "cancel":
                await self.client.cancel(self.id, rest)
            case "retry":
                steps = [each for each in rest.split() if each != "--from-start"]
                await self.client.retry(
                    self.id, steps[0] if steps else None, from_start="--from-start" in rest.split()
                )

    async def _start(self, workload: dict[str, JSON]) -> None:
        for path in sorted(set(re.findall(r"\bpath: ([\w/]+)", self.body))):
            await self.client.register(CHILD.replace("PATH", path).replace("URL", self.answers.url))
        text = HEAD.replace("path: scenario", f"path: scenarios/{self.told.name}") + self.body
        registered = await self.client.register(text)
        self.id = (await self.client.start(digest=registered.digest, workload=workload)).execution_id
        self._follow()

    async def _answer(self, keys: set[str], told: str) -> None:
        (await self._asked(keys)).set_result(_response(told))

    async def _until_asked(self) -> None:
        """Frames that the player has at a call have sent their requests."""
        for frame in list(due(self.player.state)):
            move = next_move(work_of(self.player.program, self.player.state, frame), self.player.at)
            if isinstance(move, RunTask):  # and it does not wait before it tries again
                await self._asked(self._keys(frame))

    async def _asked(self, keys: set[str]) -> asyncio.Future[web.Response]:
        """A request of the house; nobody waits for one when the execution is over."""
        assert self._following is not None
        asked = asyncio.ensure_future(self.answers.asked(keys))
        await asyncio.wait({asked, self._following}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            asked.cancel()
            raise AssertionError(f"it is over; the house went on with {dict(self.beyond())}")
        return asked.result()

    def _keys(self, frame: str) -> set[str]:
        """Of all calls that the frame may make."""
        program = self.player.program
        pipelines = [*(step.pipeline for step in program.steps.values()), *program.blocks.values()]
        names = {task.name for pipeline in pipelines for task in pipeline.tasks}
        return _keys(self.id, frame, names)

    # What is on record

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
        """Pure tasks before a call that runs are reported with it."""
        missing = self._names(self.player.log) - self._names(self.events)
        frames = tuple(f"{frame}/" for frame in due(self.player.state))
        return Counter(
            {(name, what): n for (name, what), n in missing.items() if not _is_of_call(what, frames)}
        )

    def beyond(self) -> Counter[tuple[str, str]]:
        """Facts that the house has and the player has not; but that a step has begun is told while its call runs."""
        beyond = self._names(self.events) - self._names(self.player.log)
        return Counter({told: n for told, n in beyond.items() if told[0] != "step.started"})


def _keys(execution_id: str, frame: str, tasks: set[str]) -> set[str]:
    """The idempotency keys of a frame's calls, as they are made."""
    entries = (f"{execution_id}/{frame}/{task}/{entry}" for task in tasks for entry in range(ENTRIES_MAX))
    return {hashlib.sha256(each.encode()).hexdigest() for each in entries}


def _is_pause(fact: Fact) -> bool:
    """A frame that waits for a while gives its slot back when that is worth it, which is the house's affair."""
    match fact:
        case FrameParked(until=ForTime()) | FrameResumed(output=None, run=None):
            return True
    return False


def _named(fact: Fact) -> tuple[str, str]:
    """Branches come to a join in any order, so its tokens do, too."""
    name, what, *_ = tell(fact)
    return name, ", ".join(sorted(what.split(", ")))


def _is_of_call(subject: str, frames: tuple[str, ...]) -> bool:
    return subject.startswith(frames) and subject.rpartition("/")[2].isdigit()


def _of_kind_http(command: str) -> str:
    """A real server's failures are all of one kind."""
    return re.sub(r"^(report \S+ error) (?!http)\w+", r"\1 http", command)


def without_messages(made: dict[str, JSON]) -> dict[str, JSON]:
    """How a call failed is told by the server in other words than by the player; and its status stands in `http`."""

    def walk(value: Any) -> Any:
        match value:
            case dict():
                return {key: walk(each) for key, each in value.items() if key != "http"}
            case list():
                return [walk(each) for each in value]
            case "scheduled":
                return "running"  # the player's steps begin with the report of their first call
            case str():
                return _MADE.sub("…", re.sub(r"HTTP \d+[\w ]* from POST \S+", "it did not work", value))
        return value

    cleaned: dict[str, JSON] = walk(made)
    return cleaned
