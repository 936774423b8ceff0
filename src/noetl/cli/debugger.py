"""The debugger of the terminal: commands from a terminal or standard input, and what it shows at each stop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import UnsetType

from noetl.cli.execute import INTERRUPTED, Reporter, find, hinting
from noetl.cli.interrupts import Interrupted, Interrupts
from noetl.cli.output.documents import as_lines
from noetl.cli.output.screen import short
from noetl.cli.runner import conclude, print_notes_of, refuse
from noetl.cli.workload import parse_value, read_ctx, read_labels, read_secrets, read_workload
from noetl.engine.breakpoints import ANYWHERE
from noetl.engine.commands import SetBreakpoint
from noetl.engine.state import LIVE, Status
from noetl.errors import NotFound, Rejected
from noetl.escape import one_line, shorten
from noetl.ids import place_of_frame
from noetl.output import JSON
from noetl.session.connect import open_session, resolve
from noetl.session.debugger import Debugged, DebuggedTree
from noetl.session.errors import StartRefused, UsageError
from noetl.session.execution import LAST, is_id_part
from noetl.session.protocol import ForkSpec
from noetl.session.sources import STDIN, PlaybookFile, find_source
from noetl.template.values import to_json
from noetl.views.state_at import changes_between
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from noetl.cli.arguments import RunOptions
    from noetl.session.execution import Execution
    from noetl.session.protocol import Session
    from noetl.views.debugging import HoldDocument

LINES_AROUND: Final = 4  # of the playbook, before and after the current place
CHANGES_SHOWN_MAX: Final = 10
VALUE_CHARS_MAX: Final = 200
PRINTED_LINES_MAX: Final = 200
COMPARED: Final = ("ctx", "step", "iter")  # scopes whose changes are shown
LEVELS: Final = 3
CHILD_POLL_S: Final = 0.2  # a child that was called appears within about this time
PROMPT: Final = "(noetl) "

HELP: Final = (
    ("c, continue [all]", "continue to the next breakpoint; all: continue everything that is held"),
    ("s, step", "run one task, or enter the next step"),
    ("w, where", "what is held, and the playbook around the current place"),
    ("p, print EXPR", "a value, as in print ctx.total or print iter.page + 1; without EXPR: all scopes"),
    ("set PATH VALUE", "change a value of ctx, step or iter; {{ … }} is evaluated first; the log records it"),
    ("b, break [PLACE [when EXPR]]", "stop before a step or task; without PLACE: all breakpoints"),
    ("clear PLACE|all", "remove a breakpoint"),
    ("use ID", "make another held place the current one"),
    ("l, list", "the playbook around the current place"),
    ("r, restart [FILE]", "a new execution that keeps the work before the current step"),
    ("q, quit", "pause the execution and leave"),
)


class DebugCommand(NamedTuple):
    """A command, and the rest of its line."""

    verb: str
    rest: str


LETTERS: Final = {
    "c": "continue", "s": "step", "w": "where", "p": "print", "q": "quit", "b": "break", "l": "list", "r": "restart",
    "h": "help", "?": "help",
}  # fmt: skip
VERBS: Final = frozenset({*LETTERS.values(), "set", "clear", "use"})


def parse_line(line: str) -> DebugCommand | None:
    """The command of a line; None: the line is empty, or a comment."""
    verb, _, rest = line.strip().partition(" ")
    if not verb or verb.startswith("#"):
        return None
    rest = rest.strip()
    if verb == "s" and rest:
        return DebugCommand("set", rest)  # both begin with this letter; a step has no arguments
    return DebugCommand(LETTERS.get(verb, verb), rest)


class CommandInput:
    """Lines of a terminal or of standard input, read by a thread, so that executions continue meanwhile."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._wanted = threading.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        self._complete: Callable[[], Sequence[str]] = tuple
        self._terminal = _terminal_settings() if self.is_terminal else None
        threading.Thread(target=self._read, daemon=True).start()

    def close(self) -> None:
        """Leave the terminal as it was: the thread may still edit a line, in which case it does not echo."""
        if self._terminal is not None:
            import termios

            with suppress(termios.error, ValueError):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._terminal)

    def complete_with(self, words: Callable[[], Sequence[str]]) -> None:
        self._complete = words

    async def line(self) -> str | None:
        """None: the input has ended."""
        self._wanted.release()
        return await self._lines.get()

    def _read(self) -> None:
        if self.is_terminal:
            self._use_readline()
        while True:
            self._wanted.acquire()
            try:
                line = input(PROMPT if self.is_terminal else "")
            except (EOFError, ValueError, OSError):
                line = None
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            if line is None:
                return

    def _use_readline(self) -> None:
        try:
            import readline
        except ImportError:  # not on every platform
            return

        def complete(text: str, number: int) -> str | None:
            begins = readline.get_begidx() == 0
            words = [f"{each} " for each in sorted(VERBS)] if begins else self._complete()
            found = [each for each in words if each.startswith(text)]
            return found[number] if number < len(found) else None

        readline.set_completer(complete)
        readline.parse_and_bind("set enable-bracketed-paste off")  # it would stay on when Ctrl-C ends the debugger
        readline.set_completer_delims(" ")
        readline.parse_and_bind("tab: complete")


def _terminal_settings() -> list[Any] | None:
    try:
        import termios
    except ImportError:  # not on every platform
        return None
    return termios.tcgetattr(sys.stdin)


def debug_target(reporter: Reporter, options: RunOptions, breaks: Sequence[str], whens: Sequence[str]) -> int:
    """Start a playbook, or attach to an execution; the exit code."""
    if options.file == STDIN:
        raise UsageError("commands are read from standard input: name the playbook by its file")
    if len(whens) > len(breaks):
        raise UsageError("--when needs a --break: the first --when belongs to the first --break, and so on")
    conditions = [*whens, *[None] * (len(breaks) - len(whens))]
    points = [SetBreakpoint(place=place, when=when) for place, when in zip(breaks, conditions, strict=True)]
    target = resolve(options.db, options.server)
    attaches = _is_execution(options.file)

    async def work() -> int:
        async with open_session(target, create=not attaches, dedicated=True) as session:
            with hinting(session.hint):
                if attaches:
                    execution = await find(reporter, session, options.file)
                    if not await _attach(reporter, execution, points):
                        return conclude(reporter, await execution.show(), session.hint)
                else:
                    execution = await _start(reporter, session, options, points)
                return await Terminal(reporter, execution).run()

    try:
        return asyncio.run(work())
    except StartRefused as refused:
        return refuse(reporter, refused)


def _is_execution(name: str) -> bool:
    """A file with this name is a playbook."""
    with suppress(UsageError, NotFound, OSError):
        if isinstance(find_source(name), PlaybookFile):
            return False
    return name == LAST or is_id_part(name)


async def _start(
    reporter: Reporter, session: Session, options: RunOptions, points: Sequence[SetBreakpoint]
) -> Execution:
    given = read_workload(options.workload, options.sets)
    workload = partial(given.values_for, allow_extra=options.allow_extra)
    ctx = partial(read_ctx(options.ctx).values_for, allow_extra=options.allow_extra) if options.ctx else None
    execution = await session.start(
        find_source(options.file),
        workload=workload,
        ctx=ctx,
        labels=read_labels(options.labels),
        dialect=options.dialect,
        breakpoints=points or (SetBreakpoint(place=ANYWHERE, once=True),),
        secrets=read_secrets(options.secrets),
    )
    print_notes_of(reporter, execution, options.file, given.values)
    _report_on(reporter, execution)
    reporter.screen.line(Styled(execution.id, "faint"))
    return execution


def _report_on(reporter: Reporter, execution: Execution) -> None:
    """Errors name this execution."""
    reporter.execution_id, reporter.status = execution.id, "running"


async def _attach(reporter: Reporter, execution: Execution, points: Sequence[SetBreakpoint]) -> bool:
    """Continue it with the breakpoints. False: it has ended."""
    info, debugger = await execution.info(), execution.debugger()
    tree = DebuggedTree(execution.session, execution.id)
    if not info.live:
        name = f"{short(execution.id)}{execution.session.hint}"
        reporter.warn(f"the execution has ended: {info.status}; noetl fork {name} runs it again from a step")
        return False
    for each in points:
        await debugger.set_breakpoint(each.place, each.when)
    if not points and not any(each.document.held for each in await tree.read()):
        await debugger.set_breakpoint(ANYWHERE, once=True)
    if info.standing in ("paused", "interrupted"):
        await execution.resume()
    reporter.screen.line(Styled(execution.id, "faint"))
    return True


class Stop(NamedTuple):
    """A held run or frame of the execution, or of a child."""

    owner: Debugged
    hold: HoldDocument

    @property
    def label(self) -> str:
        return self.owner.label(self.hold)


class Followers:
    """Notice when one of several executions continues."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def wait(self, tree: Sequence[Debugged], timeout_s: float | None) -> None:
        """Until one of them has more events than its document, or has ended."""
        for each in tree:
            if each.execution_id not in self._tasks:
                follow = self._follow(each.execution_id, each.document.seq)
                self._tasks[each.execution_id] = asyncio.create_task(follow)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()
        for task in self._tasks.values():
            if task.done():
                task.result()

    async def _follow(self, execution_id: str, after: int) -> None:
        try:
            async for _ in self._session.follow(execution_id, after):
                self._changed.set()
        finally:
            self._changed.set()

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()


class Terminal:
    """One execution at a time, which `restart` replaces, and the children that it waits for."""

    def __init__(self, reporter: Reporter, execution: Execution) -> None:
        self._reporter = reporter
        self._screen = reporter.screen
        self._input = CommandInput()
        self._input.complete_with(lambda: self._places)
        self._execution = execution
        self._tree = DebuggedTree(execution.session, execution.id)
        self._at: str | None = None  # the label of the current place
        self._stops: dict[str, Stop] = {}  # by label
        self._places: tuple[str, ...] = ()  # for completion
        self._seen: dict[str, dict[str, JSON]] = {}  # execution → its scopes at the last stop
        self._texts: dict[str, list[str]] = {}  # digest → the lines of the playbook
        self._verbs: dict[str, Callable[[str], Awaitable[bool]]] = {
            "continue": self._continue, "step": self._step, "where": self._where, "print": self._print,
            "set": self._set, "break": self._break, "clear": self._clear, "use": self._use, "list": self._list,
            "restart": self._restart, "help": self._help,
        }  # fmt: skip

    @property
    def _session(self) -> Session:
        return self._execution.session

    async def run(self) -> int:
        """Until it has ended, or the person leaves; the exit code."""
        with Interrupts(lambda: None) as interrupts, closing(self._input):
            while True:
                try:
                    status = await interrupts.unless(self._next_stop())
                except Interrupted:
                    if not await self._hold_next(interrupts):
                        return await self._leave()
                    continue
                if status not in LIVE:
                    return await self._ended()
                if status == "paused" or not await self._at_stop(interrupts):
                    return await self._leave()

    async def _hold_next(self, interrupts: Interrupts) -> bool:
        """After Ctrl-C: hold the next step or task. False: it was pressed again before one was reached."""
        self._reporter.warn("stopping before the next step or task; press Ctrl-C again to leave")
        for each in await self._read():
            if not each.document.children:
                with suppress(Rejected):
                    await each.debugger.set_breakpoint(ANYWHERE, once=True)
        try:
            await interrupts.unless_again(self._next_stop())
        except Interrupted:
            return False
        interrupts.first.clear()
        interrupts.second.clear()
        return True

    async def _next_stop(self) -> Status:
        """The status, as soon as something is held, it is paused, or has ended."""
        followers = Followers(self._session)
        try:
            while True:
                tree = await self._read()
                status = tree[0].document.status
                if self._stops or status not in ("new", "running", "cancelling"):
                    return status
                await followers.wait(tree, CHILD_POLL_S if self._tree.starting else None)
        finally:
            await followers.close()

    async def _read(self) -> list[Debugged]:
        """The execution and its children; and what is held."""
        tree = await self._tree.read()
        stops = [Stop(each, hold) for each in tree for hold in each.document.held]
        self._stops = {each.label: each for each in stops}
        return tree

    def _here(self) -> Stop:
        """Raises UsageError when it is no longer held: somebody else may have released it."""
        if self._at not in self._stops:
            raise UsageError(f"{self._at} is no longer held")
        return self._stops[self._at]

    async def _at_stop(self, interrupts: Interrupts) -> bool:
        """Show the place and obey commands until something continues. False: the input has ended, or `quit`."""
        self._at = self._at if self._at in self._stops else next(iter(self._stops))
        await self._show_stop()
        while True:
            try:
                line = await interrupts.unless(self._input.line())
            except Interrupted:
                if self._input.is_terminal:
                    self._screen.line("")  # after the prompt
                return False
            if line is None:
                return False
            if (words := parse_line(line)) is None:
                continue
            if words.verb == "quit":
                return False
            try:
                if words.verb not in self._verbs:
                    raise UsageError(f'there is no command "{one_line(words.verb)[:40]}": help lists them')
                if await self._verbs[words.verb](words.rest):
                    return True
            except (Rejected, UsageError, NotFound, StartRefused) as error:
                message = str(error).removeprefix(f"{error.code}: ") if isinstance(error, Rejected) else str(error)
                self._reporter.warn(message)

    # What a stop shows

    async def _show_stop(self) -> None:
        stop = self._here()
        owner, hold = stop
        where = f"{stop.label}, attempt {hold.attempt}" if hold.attempt > 1 else stop.label
        why = f"breakpoint {hold.breakpoint}" if hold.breakpoint else "a step has ended here"
        place = (Styled("■ ", "warning"), Styled(hold.place, "name"))
        self._screen.line(*place, Styled(f"  {where}  "), Styled(why, "faint"))
        if owner.within:
            self._screen.line(Styled(f"  in the child {short(owner.execution_id)}  {owner.document.path}", "faint"))
        if hold.error is not None:
            self._screen.line(Styled(f"  its breakpoint cannot be checked: {hold.error}", "error"))
        others = len(self._stops) - 1 + owner.document.held_left_out
        if others:
            self._screen.line(Styled(f"  {others} more held: where lists them", "faint"))
        await self._show_lines()
        await self._show_changes()

    async def _show_lines(self) -> None:
        owner, hold = self._here()
        if hold.line is None:
            return
        digest = owner.document.digest
        if digest not in self._texts:
            self._texts[digest] = (await self._session.catalog.get(digest)).text.splitlines()
        text = self._texts[digest]
        first, last = max(1, hold.line - LINES_AROUND), min(len(text), hold.line + LINES_AROUND)
        for number in range(first, last + 1):
            here = number == hold.line
            mark = Styled(">" if here else " ", "warning")
            line = shorten(text[number - 1], self._screen.columns - 8)
            self._screen.line(mark, Styled(f"{number:>5} ", "faint"), Styled(line, "strong" if here else ""))

    async def _show_changes(self) -> None:
        """What differs from the last stop."""
        owner, hold = self._here()
        scopes = (await owner.debugger.scopes(hold.at)).scopes
        now: dict[str, JSON] = {name: scopes[name] for name in COMPARED if name in scopes}
        if "output" in scopes:
            shown = {key: scopes["output"].get(key) for key in ("status", "data", "error")}
            now["output"] = {key: value for key, value in shown.items() if value is not None}
        seen = self._seen.get(owner.execution_id, {})
        changes = [each for name in now for each in changes_between(name, seen.get(name, {}), now[name], LEVELS)]
        self._seen[owner.execution_id], self._places = now, _names(scopes)
        for each in changes[:CHANGES_SHOWN_MAX]:
            value = "removed" if isinstance(each.after, UnsetType) else f"= {_short(each.after)}"
            self._screen.line(Styled(f"  {each.path} ", "kind"), Styled(value))
        if len(changes) > CHANGES_SHOWN_MAX:
            self._screen.line(Styled(f"  {len(changes) - CHANGES_SHOWN_MAX} more changes", "faint"))

    # Commands: True when something continues

    async def _continue(self, rest: str) -> bool:
        if rest not in ("", "all"):
            raise UsageError("continue takes nothing, or all")
        if rest == "all":
            await self._tree.release()
        else:
            owner, hold = self._here()
            await owner.debugger.release(hold.at)
        return True

    async def _step(self, _rest: str) -> bool:
        owner, hold = self._here()
        await owner.debugger.step(hold.at)
        return True

    async def _where(self, _rest: str) -> bool:
        await self._read()
        for label, (_, hold) in self._stops.items():
            mark = Styled("> " if label == self._at else "  ", "warning")
            line = f"line {hold.line}" if hold.line is not None else ""
            place = (Styled(f"{label}  ", "strong"), Styled(f"before {hold.place}  "))
            self._screen.line(mark, *place, Styled(line, "faint"))
        await self._show_lines()
        return False

    async def _list(self, _rest: str) -> bool:
        await self._show_lines()
        return False

    async def _print(self, rest: str) -> bool:
        owner, hold = self._here()
        if not rest:
            for name, value in (await owner.debugger.scopes(hold.at)).scopes.items():
                self._screen.line(Styled(f"{name} ", "kind"), Styled(_short(value)))
            return False
        found = await owner.debugger.evaluate(rest, hold.at)
        if found.error is not None:
            self._reporter.warn(found.error)
            return False
        lines = as_lines(found.value)
        for line in lines[:PRINTED_LINES_MAX]:
            self._screen.line(line)
        if len(lines) > PRINTED_LINES_MAX:
            self._screen.line(Styled(f"… {len(lines) - PRINTED_LINES_MAX:,} more lines", "faint"))
        if found.masked:
            self._reporter.warn("values of the keychain are never shown")
        return False

    async def _set(self, rest: str) -> bool:
        path, _, text = rest.partition(" ")
        text = text.strip()
        if not path or not text:
            raise UsageError("set needs a path and a value: set ctx.total 4")
        owner, hold = self._here()
        if "{{" in text:
            found = await owner.debugger.evaluate(text, hold.at)
            if found.error is not None or found.masked:
                raise UsageError(found.error or "a value of the keychain cannot be written into a scope")
            value = found.value
        else:
            value = parse_value(text, "set")
        await owner.debugger.change(hold.at, {path: value})
        self._screen.line(Styled(f"{path} ", "kind"), Styled(f"= {_short(value)}"))
        return False

    async def _break(self, rest: str) -> bool:
        """Of the playbook at the current place."""
        debugger = self._here().owner.debugger
        if rest:
            place, _, condition = rest.partition(" ")
            when = condition.strip().removeprefix("when ").strip() or None
            await debugger.set_breakpoint(place, when)
        for each in (await debugger.document()).breakpoints:
            line = f"  line {each.line}" if each.line is not None else ""
            condition = f"  when {each.when}" if each.when else ""
            self._screen.line(Styled(each.place, "name"), Styled(condition), Styled(line, "faint"))
        return False

    async def _clear(self, rest: str) -> bool:
        if not rest:
            raise UsageError("clear needs a place, or all")
        await self._here().owner.debugger.clear_breakpoint(None if rest == "all" else rest)
        return False

    async def _use(self, rest: str) -> bool:
        await self._read()
        if rest not in self._stops:
            raise UsageError(f'"{one_line(rest)[:80]}" is not held: where lists what is')
        self._at = rest
        await self._show_stop()
        return False

    async def _restart(self, rest: str) -> bool:
        """A fork from the current step, with the same breakpoints, which is debugged from now on."""
        document = (await self._read())[0].document
        step = place_of_frame(self._here().label).partition("/")[0]
        points = tuple(SetBreakpoint(place=each.place, when=each.when, once=each.once) for each in document.breakpoints)
        if all(each.place != step for each in points):
            points = (*points, SetBreakpoint(place=step, once=True))
        if document.status == "running":
            await self._session.pause(self._execution.id)
        wanted = ForkSpec(rest or None, from_step=step, breakpoints=points)
        old, self._execution = self._execution, await self._session.fork(self._execution.id, wanted)
        _report_on(self._reporter, self._execution)
        self._tree = DebuggedTree(self._session, self._execution.id)
        kept = f"  keeps the work of {short(old.id)} before {step}"
        self._screen.line(Styled(self._execution.id, "faint"), Styled(kept))
        self._at, self._seen = None, {}
        return True

    async def _help(self, _rest: str) -> bool:
        width = max(len(name) for name, _ in HELP)
        for name, text in HELP:
            self._screen.line(Styled(f"  {name:<{width}}  ", "strong"), Styled(text))
        return False

    # Ends

    async def _ended(self) -> int:
        await self._session.drain()
        return conclude(self._reporter, await self._execution.show(), self._session.hint)

    async def _leave(self) -> int:
        """Pause it, and print how to continue."""
        session, id = self._session, self._execution.id
        with suppress(Rejected):
            await session.pause(id)
        document = (await self._read())[0].document
        await session.drain()
        if document.status not in LIVE:
            return conclude(self._reporter, await self._execution.show(), session.hint)
        shown = list(self._stops.items())[:CHANGES_SHOWN_MAX]
        held = ", ".join(f"{label} before {hold.place}" for label, (_, hold) in shown)
        name = f"{short(id)}{session.hint}"
        self._reporter.document(await self._execution.show())
        self._screen.line(Styled("paused", "warning"), Styled(f"; held: {held}" if held else ""))
        self._screen.line(f"  debug it further: noetl debug {name}")
        self._screen.line(f"  run it to its end: noetl resume {name} --no-breakpoints")
        return INTERRUPTED


def _short(value: JSON) -> str:
    return shorten(one_line(to_json(value)), VALUE_CHARS_MAX)


def _names(scopes: dict[str, JSON]) -> tuple[str, ...]:
    """The paths of the scopes, two levels deep, for completion."""
    inner = [f"{name}.{key}" for name, values in scopes.items() if isinstance(values, dict) for key in values]
    return (*scopes, *inner)
