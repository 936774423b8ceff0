"""`noetl show` for people: an execution as a tree with times, its children, its error and its output."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from shlex import quote

from noetl.cli.output.documents import as_lines
from noetl.cli.output.screen import STYLES, ago, duration, short, with_hint
from noetl.cli.output.summary import (
    HELD_SHOWN_MAX,
    NEVER_BEGAN,
    cancel_lines,
    causes,
    compensation_lines,
    did_not_begin,
    held_lines,
    printed_lines,
    suggested_fix,
)
from noetl.errors import NotFound
from noetl.escape import one_line, shorten, width
from noetl.net.describe import count
from noetl.output import Failure
from noetl.session.execution import Execution
from noetl.session.protocol import ExecutionInfo, Session
from noetl.views.debugging import DebugDocument
from noetl.views.documents import (
    ErrorDocument,
    ForkDocument,
    IterationCounts,
    LimitDocument,
    OutputDocument,
    ShowDocument,
    StepDocument,
)
from noetl.views.styled_text import Styled, TreeBranch, branches, table

MARKS = {
    "ok": "✓", "error": "✗", "running": "▸", "scheduled": "·", "waiting": "◌",
    "cancelled": "⊘", "stopped": "⊘",
}  # fmt: skip
STEPS_SHOWN = 100  # the first ones, and as many of the last ones
CHILDREN_SHOWN = 50  # executions that are shown below the steps that called them
CALLED_SHOWN = 50  # executions that loops called
OUTPUT_LINES = 20
TRACEBACK_LINES = 15
MESSAGE_CHARS = 400
NAME_COLUMNS = 40  # names are padded up to this, so that times are aligned


async def tree(execution: Execution, columns: int) -> AsyncIterator[list[Styled]]:
    """All lines about it."""
    info, document = await execution.info(), await execution.show()
    children = _Children(execution.session)
    await children.load(document)
    for line in _main_lines(info, document, children, columns):
        yield line
    async for line in _called_lines(execution, children):
        yield line
    for line in _ending(info, document, execution.session.hint):
        yield line


class _Children:
    """The executions that steps have called, and those that these have called."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.now: datetime = session.clock.now()
        self.hint = session.hint
        self.known: dict[str, tuple[ExecutionInfo, ShowDocument]] = {}

    async def load(self, document: ShowDocument) -> None:
        for step in _with_blocks(document.steps):
            if step.child is None or step.child in self.known or len(self.known) >= CHILDREN_SHOWN:
                continue
            execution = Execution(self._session, step.child)
            try:
                self.known[step.child] = await execution.info(), await execution.show()
            except NotFound:
                continue  # it is being started
            await self.load(self.known[step.child][1])


def _with_blocks(steps: Sequence[StepDocument]) -> Iterator[StepDocument]:
    for step in steps:
        yield step
        yield from _with_blocks(step.blocks)


def _main_lines(
    execution: ExecutionInfo, document: ShowDocument, children: _Children, columns: int
) -> Iterator[list[Styled]]:
    yield [Styled(execution.execution_id, "strong"), Styled(f"  {execution.path}", "faint")]
    yield _headline(execution, document, children.now)
    if isinstance(document.fork, ForkDocument):
        yield [Styled(f"fork of {document.fork.execution_id} after event {document.fork.seq:,}", "faint")]
    if execution.labels:
        marks = "  ".join(f"{key}={value}" for key, value in execution.labels.items())
        yield [Styled(f"labels {one_line(marks)}", "faint")]
    yield from branches(list(_steps(document.steps, execution, children)), columns)


def _ending(info: ExecutionInfo, document: ShowDocument, hint: str) -> Iterator[list[Styled]]:
    """Its error or output, and what to do next."""
    name = f"{short(info.id)}{hint}"
    yield from cancel_lines(document)
    for limit in document.limits or ():
        yield [Styled("◌ ", "info"), Styled(limit_text(limit, document.execution_id))]
    yield from held_lines(document, name)
    if document.error is not None:
        yield from _error(document.error, hint)
        if did_not_begin(document):
            yield [Styled(NEVER_BEGAN, "faint")]
    yield from compensation_lines(document, name)
    if document.output is not None and document.output.status == "ok":
        yield from _output(document.output, f"noetl output {name}")
    if info.standing == "interrupted":
        yield [Styled(f"no process runs it: continue with noetl resume {name}", "warning")]


def limit_text(limit: LimitDocument, execution_id: str) -> str:
    """`fetch#1 waits for the limit "shop a", 2 are before it; held by 0199b3c2`."""
    who = one_line(limit.waits) or "it"
    text = f'{who} waits for the limit "{one_line(limit.key)}"' if limit.key else f"{who} waits for its turn"
    if limit.ahead:
        text += f", {limit.ahead:,} {'is' if limit.ahead == 1 else 'are'} before it"
    holders = ["this execution" if each == execution_id else short(each) for each in limit.held_by]
    return f"{text}; held by {', '.join(holders)}" if holders else text


def _headline(execution: ExecutionInfo, document: ShowDocument, now: datetime) -> list[Styled]:
    standing = execution.standing
    verb = " for " if standing == "running" else " after "
    line = [Styled(standing, STYLES[standing]), Styled(f"{verb}{duration(document.duration_s)}")]
    started = f"{execution.started_at:%Y-%m-%d %H:%M:%S}Z"
    line.append(Styled(f", started {started} ({ago(execution.started_at, now)})", "faint"))
    if execution.live and execution.owner_alive and execution.pid is not None:
        line.append(Styled(f", in process {execution.pid}", "faint"))
    return line


def _steps(steps: Sequence[StepDocument], execution: ExecutionInfo, children: _Children) -> Iterator[TreeBranch]:
    room = min(NAME_COLUMNS, max((width(one_line(step.id)) for step in steps), default=0))
    left_out = len(steps) - 2 * STEPS_SHOWN
    for number, step in enumerate(steps):
        if left_out > 0 and number == STEPS_SHOWN:
            yield TreeBranch((Styled(f"… {left_out:,} more, see --format json", "faint"),))
        if left_out <= 0 or not STEPS_SHOWN <= number < STEPS_SHOWN + left_out:
            yield _step(step, room, execution, children)


def _step(step: StepDocument, room: int, execution: ExecutionInfo, children: _Children) -> TreeBranch:
    style = STYLES.get(step.status, "")
    name = one_line(step.id)
    line = [Styled(f"{MARKS.get(step.status, '?')} ", style), Styled(name, "name")]
    figures = list(_figures(step, execution))
    if figures:
        line.append(Styled(" " * max(0, room - width(name))))
        line += [Styled(f"  {figure.text}", figure.style) for figure in figures]
    return TreeBranch(tuple(line), tuple(_below(step, execution, children)))


def _figures(step: StepDocument, execution: ExecutionInfo) -> Iterator[Styled]:
    if step.kept and step.kept == step.calls:
        yield Styled("kept", "faint")
    elif step.duration_s is not None:
        yield Styled(duration(step.duration_s))
        if step.kept:
            yield Styled(f"{step.kept:,} of {count(step.calls, 'call')} kept", "faint")
    if step.iterations is not None:
        yield _loop(step.iterations)
    if step.retries:
        yield Styled(f"{step.retries:,} {'retry' if step.retries == 1 else 'retries'}", "warning")
    if step.lost:
        yield Styled(f"{count(step.lost, 'lost worker')}", "warning")
    if step.compensates is not None:
        yield Styled(f"undoes {step.compensates}", "faint")
    if step.retry_of is not None:
        yield Styled(f"retries {step.retry_of}", "faint")
    if step.handled:
        yield Styled("handled", "faint")
    if step.status in ("cancelled", "stopped", "scheduled"):
        yield Styled(step.status, "faint")
    if step.status == "waiting":
        yield Styled(f"a token to {one_line(step.step)}", "faint")
    if step.status == "running" and not execution.owner_alive and step.why is None:
        yield Styled("interrupted", "warning")


def _loop(loop: IterationCounts) -> Styled:
    text = f"{loop.succeeded:,} of {count(loop.count, 'iteration')}"
    text += f", {loop.failed:,} failed" if loop.failed else ""
    if (inside := loop.inside) is not None:
        text += f", {inside.succeeded:,} of {inside.count:,} inside"
        text += f", {inside.failed:,} failed" if inside.failed else ""
    return Styled(text, "warning" if loop.failed or (inside is not None and inside.failed) else "")


def _below(step: StepDocument, execution: ExecutionInfo, children: _Children) -> Iterator[TreeBranch]:
    if step.error is not None:
        yield TreeBranch((Styled(_failure(step.error), "warning" if step.handled else "error"),))
    yield from _failures(step)
    yield from _running(step, execution)
    if step.why is not None:
        yield TreeBranch((Styled(one_line(step.why), "info"),), tuple(_signal(step, execution, children.hint)))
    if step.child is not None:
        yield _child(step.child, children)
    yield from _steps(step.blocks, execution, children)
    if step.blocks_left_out:
        yield TreeBranch((Styled(f"… {count(step.blocks_left_out, 'more call')} of blocks", "faint"),))


def _running(step: StepDocument, execution: ExecutionInfo) -> Iterator[TreeBranch]:
    """Calls that take long; of a loop, the first ones."""
    for call in step.running:
        name = call.task if step.iterations is None else f"{call.id} {call.task}"
        line = [Styled(f"{one_line(name)}  ", "name")]
        if execution.owner_alive:
            line.append(Styled(f"running for {duration(call.duration_s)}", "info"))
        else:
            line.append(Styled("was running", "warning"))
        again = f", attempt {call.attempt}" if call.attempt > 1 else ""
        line.append(Styled(f"{again} ({one_line(call.worker)})" if call.worker else again, "faint"))
        yield TreeBranch(tuple(line))
    if step.running_left_out:
        yield TreeBranch((Styled(f"… {count(step.running_left_out, 'more call')} running", "faint"),))


def _failures(step: StepDocument) -> Iterator[TreeBranch]:
    """Failed iterations, unless the error of the step or of a block shows the same failure."""
    failed = step.iterations.failed if step.iterations is not None else 0
    if (failed == 1 and step.error is not None) or any(block.error is not None for block in step.blocks):
        return
    for each in step.failures:
        yield TreeBranch((Styled(f"[{each.index}] ", "name"), Styled(_failure(each.error), "warning")))
    if step.failures and failed > len(step.failures):
        yield TreeBranch((Styled(f"… {failed - len(step.failures):,} more failed", "faint"),))


def _signal(step: StepDocument, execution: ExecutionInfo, hint: str) -> Iterator[TreeBranch]:
    _, waits, name = (step.why or "").partition("waits for the signal ")
    if waits:
        command = f"noetl signal {short(execution.execution_id)} {quote(one_line(name))}{hint}"
        yield TreeBranch((Styled(command, "faint"),), whole=True)


def _child(id: str, children: _Children) -> TreeBranch:
    if id not in children.known:
        return TreeBranch((Styled(f"calls {id}", "faint"),))
    execution, document = children.known[id]
    standing = execution.standing
    line = (
        Styled(f"calls {one_line(execution.path)} ", "kind"),
        Styled(short(id), "name"),
        Styled(f"  {standing}", STYLES[standing]),
        Styled(f"  {duration(document.duration_s)}"),
    )
    held = (TreeBranch(tuple(each)) for each in held_lines(document, f"{short(id)}{children.hint}"))
    return TreeBranch(line, (*_steps(document.steps, execution, children), *held))


def _failure(error: Failure | ErrorDocument) -> str:
    return shorten(f"{one_line(error.kind)}: {one_line(error.message)}", MESSAGE_CHARS)


def _error(error: ErrorDocument, hint: str) -> Iterator[list[Styled]]:
    yield []
    where = f" in {one_line(error.place)}" if error.place else ""
    yield [Styled(f"error{where}  ", "error"), Styled(with_hint(_failure(error), hint))]
    for cause in causes(error):
        yield [Styled(shorten(f"  cause: {one_line(cause)}", MESSAGE_CHARS), "faint")]
    traceback = error.details.get("traceback")
    if isinstance(traceback, str):
        for line in traceback.rstrip().splitlines()[-TRACEBACK_LINES:]:
            yield [Styled(f"  {line}", "faint")]
    for line in printed_lines(error):
        yield [Styled(line, "faint")]
    if (fix := suggested_fix(error)) is not None:
        yield [Styled(fix, "faint")]


def _output(output: OutputDocument, see: str) -> Iterator[list[Styled]]:
    if output.data is None:
        if isinstance(output.ref, dict):
            yield from ([], [Styled("output", "strong")], [Styled(f"  it is large: {see}", "faint")])
        return
    yield []
    yield [Styled("output", "strong")]
    lines = as_lines(output.data)
    for line in lines[:OUTPUT_LINES]:
        yield [Styled(f"  {line}")]
    if len(lines) > OUTPUT_LINES:
        yield [Styled(f"  … {count(len(lines) - OUTPUT_LINES, 'line')} more: {see}", "faint")]


async def _called_lines(execution: Execution, children: _Children) -> AsyncIterator[list[Styled]]:
    """The executions that its loops have called: their status, and the frame that called them."""
    called = [each for each in await execution.children() if each.id not in children.known]
    if not called:
        return
    yield []
    yield [Styled("called", "strong")]
    for line in table([_called_row(each) for each in called[:CALLED_SHOWN]]):
        yield line
    if len(called) > CALLED_SHOWN:
        see = f"noetl events {short(execution.id)}{execution.session.hint}"
        yield [Styled(f"  … {len(called) - CALLED_SHOWN:,} more, see {see}", "faint")]
    if any(each.live for each in called):
        for line in _held_called(await execution.debugger().document(), children):
            yield line


def _held_called(document: DebugDocument, children: _Children) -> Iterator[list[Styled]]:
    """What breakpoints hold in the executions that loops have called."""
    held = [each for each in document.held_children if each.execution_id not in children.known]
    for child in held[:HELD_SHOWN_MAX]:
        places = ", ".join(one_line(f"{each.at} before {each.place}") for each in child.held[:HELD_SHOWN_MAX])
        yield [
            Styled("■ ", "warning"),
            Styled(f"{one_line(child.at)} waits for {short(child.execution_id)}, which is held: {places}"),
        ]
        yield [Styled(f"  debug it: noetl debug {short(child.execution_id)}{children.hint}", "faint")]
    if len(held) > HELD_SHOWN_MAX:
        yield [Styled(f"  {len(held) - HELD_SHOWN_MAX} more children are held", "faint")]


def _called_row(info: ExecutionInfo) -> list[Styled]:
    frame = (info.parent or "").partition("/")[2].rpartition("@")[0]
    status = Styled(info.standing, STYLES[info.standing])
    return [
        Styled(short(info.id), "name"), Styled(one_line(info.path)), status,
        Styled(f"by {one_line(frame)}", "faint"),
    ]  # fmt: skip
