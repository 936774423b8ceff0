"""The plan of a fork: the first facts of the new execution, and which runs it keeps, repeats and adds.

The engine runs the new playbook from its start. When a frame becomes due whose text and input are those of a recorded
frame, the recorded facts are its report; other frames are left to workers. So the plan is a valid log, and every kept
result is that of a call with the same text and input (ADR 13).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from noetl.engine import Agenda, Recorded, accept, apply, facts, put_on, settle
from noetl.engine.commands import LEVEL, Command, Decide, EndLoop, Permitted, Report, Start, StartLoop, Wake
from noetl.engine.delegation import decision_digest
from noetl.engine.facts import Fact, ForBlock, ForChild, FrameParked, FrameResumed, TaskDone
from noetl.engine.limits import is_waiting
from noetl.engine.loops import ToRead, ToStore, awaits_reading, digest_of, loop_started
from noetl.engine.moves import due_of
from noetl.engine.parking import child_id
from noetl.engine.saved import saved_in
from noetl.engine.settle import delegated, end_delegation
from noetl.engine.state import Frame, Run, State
from noetl.engine.stored import NeedsValues
from noetl.errors import Rejected
from noetl.fork.reasons import Reasons, RepeatedRun
from noetl.fork.recording import (
    EntryDigests,
    RecordedFact,
    RecordedFrame,
    Recording,
    before_task,
    changed_files,
    decision_text,
    digest,
    picks_text,
    pipeline_text,
    with_result_store,
)
from noetl.ids import call_id, frame_id, frame_parts
from noetl.net.program import SAVED, CompiledTask, FilesOfTask, Program, UsedFiles
from noetl.output import JSON


class ForkOptions(NamedTuple):
    """What the caller asks for."""

    from_step: str | None = None  # its runs are not kept
    failed_only: bool = False  # keep every finished frame, even if its text or its input has changed
    changed_children: Collection[str] = ()  # executions of playbooks whose text has changed: they are not kept
    files: FilesOfTask | None = None  # None: files beside the playbook cannot be read here


class ForkPlan(Struct, frozen=True, kw_only=True):
    """What a fork does."""

    kept: tuple[str, ...]  # runs of the new execution
    redone: tuple[RepeatedRun, ...]
    new: tuple[str, ...]  # steps that the old playbook does not have
    at: int  # the last event of the old execution that counts
    dropped: tuple[str, ...] = ()  # runs of steps that the new playbook does not have
    unseen: tuple[str, ...] = ()  # steps with kept calls whose code may read files that were not compared
    kept_calls: int = 0
    kept_iterations: int = 0


class ItemsToStore(NamedTuple):
    """A loop with a large list: the caller stores it, and continues the plan with `start_loop`."""

    run: str
    items: list[JSON]


class _Playing(Struct):
    """A frame of the new execution that repeats a recorded one."""

    recorded: RecordedFrame
    facts: list[RecordedFact]
    next: int = 0


class Planner:
    """Call `advance` until it returns None; then `facts` and `plan` are complete."""

    def __init__(
        self,
        recording: Recording,
        program: Program,
        execution_id: str,
        start: Start,
        options: ForkOptions = ForkOptions(),  # noqa: B008  # immutable
    ) -> None:
        """`start`: the request of the new execution, without the values that come from the old one."""
        self._old = recording
        self._program = with_result_store(program)
        self._options = options
        self.state = State(execution_id=execution_id)
        self.facts: list[Fact] = []
        self._agenda: Agenda = {}
        self._at = recording.started_at or recording.last_at
        self._entries = EntryDigests([execution_id, recording.state.execution_id, *recording.state.origins])
        self._texts: dict[tuple[str, bool], bool] = {}  # pipeline → is its text the same?
        self._queue: list[tuple[int, str]] = []  # the seq of the next recorded fact, and the frame it belongs to
        self._playing: dict[str, _Playing] = {}
        self._touched: dict[str, None] = {}  # runs that may have frames to look up
        self._wait_items: dict[str, None] = {}  # runs whose items the caller must store
        self._index = self._by_entry()
        self._used: set[str] = set()
        self._unseen: dict[str, None] = {}  # see ForkPlan
        self._changed_files: dict[str, list[str]] = {}  # by run of the new execution
        assert self._at is not None
        self._submit(start, self._at)

    def _by_entry(self) -> dict[tuple[str, bool, str], list[RecordedFrame]]:
        """The frames that may be kept, by what they read."""
        continued = {frame.base for frame in self._old.frames.values()}
        found: dict[tuple[str, bool, str], list[RecordedFrame]] = {}
        for frame in self._old.frames.values():
            if frame.id in continued or not self._same_text(frame.pipeline, block=frame.block, over=frame.over):
                continue
            if frame.is_stored and not self.has_same_picks(frame.pipeline, block=frame.block):
                continue
            if self._options.from_step is not None and self._root_step(frame.run) == self._options.from_step:
                continue
            found.setdefault((frame.pipeline, frame.block, digest(self._first_entry(frame))), []).append(frame)
        return found

    def _first_entry(self, frame: RecordedFrame) -> dict[str, str]:
        while frame.base is not None:
            frame = self._old.frames[frame.base]
        return frame.entry

    def _root_step(self, run: str) -> str:
        while (parent := self._old.scheduled[run].parent) is not None:
            run = frame_parts(parent)[0]
        return self._old.scheduled[run].step

    def _same_text(self, name: str, *, block: bool, over: bool = False) -> bool:
        if self._options.failed_only and over:
            return name in (self._program.blocks if block else self._program.steps)
        if (name, block) not in self._texts:
            try:
                new = self._program.pipeline(name, block=block)
                old = self._old.program.pipeline(name, block=block)
            except KeyError:
                self._texts[name, block] = False
            else:
                same = pipeline_text(self._program, new) == pipeline_text(self._old.program, old)
                self._texts[name, block] = same
        return self._texts[name, block]

    def has_same_picks(self, name: str, *, block: bool) -> bool:
        """Are the templates the same that read the data of the step or block?"""
        try:
            old, new = (each.pipeline(name, block=block) for each in (self._old.program, self._program))
        except KeyError:
            return False
        return picks_text(old) == picks_text(new)

    # Running

    def advance(self) -> ItemsToStore | None:
        """Keep all that can be kept. Returns a list to store; None: the plan is complete."""
        while True:
            self._look_up()
            if self._queue:
                self._play()
            elif not self._decide() and not self._end_loops():
                break
        for run in self._wait_items:
            items = self._entries.items[run]
            return ItemsToStore(run, items)
        return None

    def start_loop(self, run: str, ref: dict[str, JSON]) -> None:
        """The items of a loop are stored."""
        del self._wait_items[run]
        items = self._entries.items[run]
        self._submit(StartLoop(run=run, ref=ref, count=len(items), digest=digest_of(items)), self._now())

    def _now(self) -> datetime:
        assert self._at is not None
        return self._at

    def _submit(self, command: Command, at: datetime) -> bool:
        """Record what follows from a command. False: the new execution is in another state."""
        try:
            made = accept(self._program, self.state, command, at)
        except (Recorded, Rejected):
            return False
        self._at = at
        for fact in made:
            self._record(fact)
        while (following := settle(self._program, self.state, self._agenda, at)) is not None:
            self._record(following)
            if isinstance(following, facts.Finished):
                self._record(facts.Processed(status=following.status))
        return True

    def _record(self, fact: Fact) -> None:
        apply(self.state, fact, self._now())
        put_on(self._agenda, self.state, fact)
        self.facts.append(fact)
        match fact:
            case facts.StepScheduled(run=run) | facts.LoopStarted(run=run):
                self._touched[run] = None
            case facts.IterationDone(run=run) | facts.IterationFailed(run=run):
                self._touched[run] = None
            case facts.StepWaiting(run=str(run)) | facts.PermitGranted(run=str(run)):
                self._touched[run] = None
            case FrameResumed(frame=frame, run=str()):
                self._answered(frame, fact)

    def _look_up(self) -> None:
        """Find the recorded frames of all frames that have become due."""
        while self._touched:
            name = next(iter(self._touched))
            del self._touched[name]
            run = self.state.runs.get(name)
            if run is None or run.output is not None or self.state.status != "running":
                continue
            if is_waiting(run):  # what is kept needs no permit of a limit; `finished_facts` returns the others
                self._submit(Permitted(permit=name), self._now())
                continue
            if run.looped and run.loop is None:
                self._start_loop(run)
                continue
            for frame in due_of(run):
                if frame not in self._playing:
                    self._match(run, frame)

    def _match(self, run: Run, frame: str) -> None:
        index = frame_parts(frame)[1]
        recorded = self._find(run, frame, self._entries.entry(self._program, self.state, run, index))
        if recorded is None:
            return
        self._used.add(recorded.id)
        kept = self._without_changed_children(self._old.facts_to_keep(recorded))
        kept = self._without_changed_files(run, kept)
        last = kept[-1].seq if kept else 0
        left = [each for each in recorded.facts if each.seq > last]
        if (child := _child_to_fork(left)) is not None:
            kept = [*kept, child]
        self._playing[frame] = _Playing(recorded=recorded, facts=kept)
        self._push(frame)

    def _find(self, run: Run, frame: str, entry: dict[str, str]) -> RecordedFrame | None:
        same = self._index.get((run.step, run.block, digest(entry)), ())
        found = [each for each in same if each.id not in self._used]
        if not found and self._options.failed_only:
            known = self._old.frames.get(frame)
            found = [known] if known is not None and known.over and known.id not in self._used else []
        return next((each for each in found if each.id == frame), found[0] if found else None)

    def _without_changed_children(self, kept: list[RecordedFact]) -> list[RecordedFact]:
        """Without the first call of a child that has not ended, or whose playbook has changed, and all that follows."""
        for place, (_, _, fact) in enumerate(kept):
            if isinstance(fact, FrameParked) and isinstance(fact.until, ForChild):
                ended = place + 1 < len(kept) and isinstance(kept[place + 1].fact, FrameResumed)
                if not ended or fact.until.execution_id in self._options.changed_children:
                    return kept[:place]
        return kept

    def _without_changed_files(self, run: Run, kept: list[RecordedFact]) -> list[RecordedFact]:
        """Without the first task whose code includes a file that has changed, and all that follows."""
        if self._options.failed_only:
            return kept
        pipeline = self._program.pipeline(run.step, block=run.block)
        tasks = {task.name: task for task in pipeline.tasks}
        for place, (_, _, fact) in enumerate(kept):
            if not isinstance(fact, TaskDone) or (task := tasks.get(fact.task)) is None or fact.output is None:
                continue
            used = self._used_files(task, fact)
            if not used.complete:
                self._unseen[self._root_step_of_new(run)] = None
            if changed := changed_files(fact.files, used.digests):
                self._changed_files[run.id] = changed
                return before_task(kept, place)
        return kept

    def _used_files(self, task: CompiledTask, recorded: TaskDone) -> UsedFiles:
        if self._options.files is None:
            return UsedFiles(recorded.files, complete=not recorded.files)
        return self._options.files(task, self._program.folder)

    def _root_step_of_new(self, run: Run) -> str:
        while run.parent is not None:
            run = self.state.runs[frame_parts(run.parent)[0]]
        return run.step

    def _push(self, frame: str) -> None:
        playing = self._playing[frame]
        if playing.next < len(playing.facts):
            heapq.heappush(self._queue, (playing.facts[playing.next].seq, frame))

    def _play(self) -> None:
        """The next recorded fact, in the order of the old log."""
        _, frame = heapq.heappop(self._queue)
        playing = self._playing[frame]
        recorded = playing.facts[playing.next]
        playing.next += 1
        if not self._submit(self._command(frame, recorded), recorded.at):
            playing.next -= 1
            playing.facts = playing.facts[: playing.next]  # the rest is left to a worker
            return
        if isinstance(recorded.fact, FrameParked) and isinstance(recorded.fact.until, ForBlock):
            return  # it continues when the block has ended
        self._push(frame)

    def _command(self, id: str, recorded: RecordedFact) -> Command:
        frame = self._frame(id)
        calls = frame.calls if frame is not None else 0
        match recorded.fact:
            case TaskDone() as fact:
                made = replace(fact, frame=id, call=calls + 1, epoch=None, kept=recorded.seq)
                return Report(frame=id, position=calls, facts=(made,), started_at=recorded.at)
            case FrameParked() as fact:
                parked = replace(fact, frame=id, call=calls + 1, epoch=None)
                if isinstance(until := fact.until, ForChild) and until.fork is not None:
                    call = f"{self.state.execution_id}/{call_id(id, calls + 1)}"
                    parked = replace(parked, until=replace(until, execution_id=child_id(call)))
                return Report(frame=id, position=calls, parked=parked, started_at=recorded.at)
            case FrameResumed(output=output):
                return Wake(frame=id, output=output, call=calls + 1)

    def _frame(self, id: str) -> Frame | None:
        owner, index = frame_parts(id)
        run = self.state.runs.get(owner)
        return None if run is None else run.frames.get(index)

    def _answered(self, frame: str, fact: FrameResumed) -> None:
        """A block has ended. Its caller continues as recorded if the block has returned and written the same."""
        playing = self._playing.get(frame)
        if playing is None or playing.next >= len(playing.facts):
            return
        recorded = playing.facts[playing.next].fact
        of = self._entries.of
        if isinstance(recorded, FrameResumed) and of((recorded.output, recorded.set)) == of((fact.output, fact.set)):
            playing.next += 1
            self._push(frame)
        else:
            playing.facts = playing.facts[: playing.next]

    # Loops and decisions with large values

    def _start_loop(self, run: Run) -> None:
        try:
            start = loop_started(self._program, self.state, run, self._now())
        except NeedsValues:
            return
        same = (each for each in self._old.loops.values() if self._step_of(each.fact.run) == (run.step, run.block))
        match start:
            case ToStore(items):
                self._entries.items[run.id] = items
                stored = digest(items)
                known = next((each.fact.ref for each in same if each.items == stored and each.fact.ref), None)
                if known is None:
                    self._wait_items[run.id] = None
                    return
                command = StartLoop(run=run.id, ref=known, count=len(items), digest=digest_of(items))
                self._submit(command, self._now())
            case ToRead(ref):
                for each in same:
                    if each.source == ref:
                        fact = each.fact
                        command = StartLoop(
                            run=run.id, ref=fact.ref, items=fact.items, count=fact.count, source=each.source
                        )
                        self._submit(command, self._now())
                        return

    def _step_of(self, run: str) -> tuple[str, bool]:
        scheduled = self._old.scheduled[run]
        return scheduled.step, scheduled.parent is not None

    def _end_loops(self) -> bool:
        """Loops whose large results a worker has read: the same results give the same values."""
        for run in self.state.runs.values():
            known = self._old.loop_ends.get(run.id)
            if known is None or known.picked is None or run.output is not None or run.loop is None:
                continue
            if not awaits_reading(self._program, run) or not self._is_all_kept(run):
                continue
            if not self.has_same_picks(run.step, block=run.block):
                continue
            command = EndLoop(run=run.id, picked=known.picked, stored="output.data" in known.stored)
            if self._submit(command, self._now()):
                return True
        return False

    def _is_all_kept(self, run: Run) -> bool:
        assert run.loop is not None
        found = (self._playing.get(frame_id(run.id, index)) for index in range(run.loop.count))
        return all(each is not None and each.recorded.id == frame_id(run.id, frame_parts(each.recorded.id)[1])
                   and each.recorded.over for each in found)  # fmt: skip

    def _decide(self) -> bool:
        """Decisions that a worker has made: the same text and the same values give the same decision."""
        for decision in delegated(self._agenda):
            known = self._old.decisions.get(decision)
            if known is None or known.text != decision_text(self._program, known.step):
                continue
            current = decision_digest(self._program, self.state, decision)
            if known.digest == current and known.subject == self._entries.subject(self.state, decision):
                command = Decide(decision=decision, digest=current, fact=known.fact)
                if self._submit_decision(command):
                    return True
        return False

    def _submit_decision(self, command: Decide) -> bool:
        end_delegation(self._agenda, self.state, command.decision, again=False)
        return self._submit(command, self._now())

    # The result

    def finished_facts(self, at: datetime) -> tuple[Fact, ...]:
        """The facts to commit at this time: deadlines count from now, and no value of `saved.*` is written again."""
        shift = max(at - self._now(), timedelta(0))
        return tuple(self._unsaved(_shifted(fact, shift)) for fact in self.facts if not self._is_permit(fact))

    def _unsaved(self, fact: Fact) -> Fact:
        """Without the writes to `saved.*` that the old execution has made: a later one may have replaced them."""
        if not isinstance(fact, facts.NextEvaluated) or not (found := dict(saved_in([fact]))):
            return fact
        known = {key for key, value in found.items() if (key, digest(value)) in self._old.saved}
        if fact.run in self._old.routed:
            step = self._old.scheduled[fact.run].step
            if decision_text(self._program, step) == decision_text(self._old.program, step):
                known = set(found)  # also if the old one is a fork, which has not written them again
        targets = {f"{SAVED}.{key}" for key in known}
        return replace(fact, set={target: value for target, value in fact.set.items() if target not in targets})

    def _is_permit(self, fact: Fact) -> bool:
        """Does the fact permit a run that has not ended? It has to wait for the permit."""
        run = self.state.runs.get(fact.run or "") if isinstance(fact, facts.PermitGranted) else None
        return run is not None and run.output is None

    def plan(self) -> ForkPlan:
        done = {fact.run for fact in self.facts if isinstance(fact, facts.NextEvaluated)}
        partial = {frame_parts(id)[0] for id, each in self._playing.items() if not each.recorded.over}
        kept = tuple(run for run in done_in_order(self.facts, done) if run not in partial)
        return ForkPlan(
            kept=kept,
            redone=tuple(Reasons(self._old, self, kept).all()),
            new=tuple(name for name in self._program.steps if name not in self._old.program.steps),
            at=self._old.state.seq,
            dropped=tuple(
                run
                for run, fact in self._old.scheduled.items()
                if fact.parent is None and fact.compensates is None and fact.step not in self._program.steps
            ),
            unseen=tuple(self._unseen),
            kept_calls=sum(1 for fact in self.facts if isinstance(fact, TaskDone) and fact.kept),
            kept_iterations=sum(1 for fact in self.facts if isinstance(fact, facts.IterationDone)),
        )

    # For the reasons

    @property
    def options(self) -> ForkOptions:
        return self._options

    @property
    def program(self) -> Program:
        return self._program

    def kept_from(self) -> dict[str, str]:
        """Run of the old execution → the run of the new one that keeps its frames."""
        return {each.recorded.run: frame_parts(id)[0] for id, each in self._playing.items()}

    def has_same_text(self, name: str) -> bool:
        return self._same_text(name, block=False)

    def changed_files(self, run: str) -> list[str]:
        """Files that are a part of the code of the run."""
        return self._changed_files.get(run, [])

    def changed_values(self, run: str) -> list[str]:
        """The paths whose values differ for a run without a loop that is due in both executions."""
        new, old = self.state.runs.get(run), self._old.frames.get(run)
        if new is None or old is None or new.loop is not None or new.looped:
            return []
        entry = self._entries.entry(self._program, self.state, new, None)
        return [path for path in entry if entry[path] != old.entry.get(path, "")]


def _child_to_fork(left: list[RecordedFact]) -> RecordedFact | None:
    """The call of a child that is made again, if it is the next one: the new child is a fork of the old one."""
    found: RecordedFact | None = None
    for recorded in left:
        match recorded.fact:
            case FrameParked(until=ForChild() as until):
                again = replace(until, fork=until.execution_id)
                found = recorded._replace(fact=replace(recorded.fact, until=again))
            case TaskDone(directive=directive) if directive != "retry":
                break
            case TaskDone() | FrameResumed():
                continue
            case _:
                break
    return found


def done_in_order(made: Iterable[Fact], done: Collection[str]) -> list[str]:
    return [
        fact.run for fact in made
        if isinstance(fact, facts.StepScheduled) and fact.run in done and fact.parent is None
    ]  # fmt: skip


def _shifted(fact: Fact, by: timedelta) -> Fact:
    match fact:
        case facts.StepScheduled(deadline_at=datetime() as at):
            return replace(fact, deadline_at=at + by)
        case facts.StepStarted(timeout_at=datetime() as at):
            return replace(fact, timeout_at=at + by)
        case facts.Started(token=token):
            return replace(fact, token=_shifted_token(token, by))
        case facts.NextEvaluated(tokens=tokens):
            return replace(fact, tokens=tuple(_shifted_token(token, by) for token in tokens))
    return fact


def _shifted_token(token: facts.Token, by: timedelta) -> facts.Token:
    return token if token.deadline_at is None else replace(token, deadline_at=token.deadline_at + by)


def fork_start(recording: Recording, start: Start) -> Start:
    """The request of a fork: what it does not give comes from the old execution. Raises Rejected."""
    assert start.fork is not None
    requested, started, state = recording.requested, recording.started, recording.state
    if requested is None or started is None:
        raise Rejected("never-began", "it never started, so there is nothing to keep: run it again")
    if state.compensation is not None:
        raise Rejected("compensated", "its completed steps were compensated, so they cannot be kept: run it again")
    return replace(
        start,
        workload={**requested.workload, **start.workload},
        ctx={**requested.ctx, **start.ctx},
        saved=started.saved,
        level=LEVEL,
        held=None,  # the plan is not held: what it keeps is done
        fork=replace(start.fork, seq=state.seq, before=state.origins),
    )
