"""Values of `ctx`, `step`, `iter` and `input` in the result store: a worker reads and writes them (D91).

A body is stored before the fact that has its mark. It holds plain values, never marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec.json import decode, encode
from msgspec.structs import replace

from noetl.engine import facts
from noetl.engine.apply import patched
from noetl.engine.breakpoints import paths_of_conditions
from noetl.engine.commands import Decide
from noetl.engine.delegation import decide, refs_read
from noetl.engine.facts import Fact, ForBlock, ForChild, FrameParked, TaskDone
from noetl.engine.loops import ToRead, ToStore
from noetl.engine.moves import Decision, Work
from noetl.engine.results import pick_results
from noetl.engine.scopes import at_path, of_ctx, split
from noetl.engine.snapshot import thaw
from noetl.engine.state import State
from noetl.engine.stored import filled, key_of, mark, marks_on, paths_read, ref_of, stored_bytes
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.failpoints import failpoint
from noetl.json_slices import decode_stored
from noetl.output import JSON, Failure
from noetl.paging import put_pages
from noetl.worker.loop_data import read_items
from noetl.worker.refs import ExecutionResults
from noetl.worker.retry import Stopped, retry

if TYPE_CHECKING:
    from noetl.worker.frame_driver import FrameDriver

CACHED_BYTES: Final = 64 * 1024 * 1024  # of values that a worker keeps for its next frames
PICKED_BYTES_MAX: Final = 1_048_576  # of all parts of one output that routing reads, in the log


NamedRef: TypeAlias = tuple[str, dict[str, JSON]]  # the path of a mark, and its Ref


class MissingValue(Exception):
    """A stored value cannot be read."""

    def __init__(self, name: str, error: NoetlError) -> None:
        reason = "cannot be read" if isinstance(error, Rejected) else "is not in the result store"
        message = f'the value of "{name}" {reason}: {error}'
        self.failure = Failure(kind="reference", message=message)


def stored_reads(work: Work) -> list[NamedRef]:
    """The marks that the tasks of the frame read."""
    frame, place = work.frame, work.place
    paths = paths_read(work.pipeline)
    if place.breaks is not None:
        paths = (*paths, *paths_of_conditions(place.breaks))
    if not paths:
        return []
    trees: dict[str, tuple[JSON, ...]] = {
        "ctx": (frame.ctx,), "step": (frame.step,), "iter": (place.iter, frame.iter),
        "input": (place.input, frame.asked), "workload": (place.workload,),
    }  # fmt: skip
    wanted: dict[str, NamedRef] = {}
    for path, below in paths:
        for tree in trees[str(path[0])]:
            for ref in marks_on(tree, path[1:], below=below):
                wanted.setdefault(key_of(ref), (".".join(map(str, path)), ref))
    return list(wanted.values())


class StoredValues:
    """The stored values of one frame."""

    def __init__(self, driver: FrameDriver) -> None:
        self._driver = driver
        self._marks: dict[int, JSON] = {}  # id of a value that was read → its mark
        self._values: dict[str, JSON] = {}  # by the key of their Ref; they keep the ids above valid

    async def fill(self, wanted: Iterable[NamedRef]) -> None:
        """Replace these marks by their values. Raises MissingValue."""
        work = self._driver.work
        frame, place = work.frame, work.place
        values = await self._fetch(wanted, place.workload)
        roots = {"ctx": frame.ctx, "step": frame.step}
        marks = {f"{root}.{path}": value for root, tree in roots.items() for path, value in _marked(tree, values)}
        marks |= {f"iter.{path}": value for path, value in _marked(frame.iter, values)}
        frame.ctx, frame.step, frame.iter = (filled(each, values) for each in (frame.ctx, frame.step, frame.iter))
        frame.asked = filled(frame.asked, values)
        place = replace(
            place,
            input=filled(place.input, values),
            iter=filled(place.iter, values),
            workload=filled(place.workload, values),
            marks=marks,
        )
        self._driver.work = replace(work, place=place)

    async def _fetch(self, wanted: Iterable[NamedRef], workload: dict[str, JSON]) -> dict[str, JSON]:
        """`workload`: of the execution, which may read the stored values of its callers that it names."""
        results = self._driver.readable(workload)
        for name, ref in wanted:
            key = key_of(ref)
            value = self._values[key] = await self._read(name, ref, results)
            self._marks[id(value)] = mark(ref)
        return self._values

    async def _read(self, name: str, ref: dict[str, JSON], results: ExecutionResults) -> JSON:
        cache, key = self._driver.worker.values, key_of(ref)
        try:
            await results.check(ref)
            if (known := cache.get(key)) is not None:
                return known[1]
            body = await self._driver.worker.results.get(ref)
        except Unavailable:
            raise Stopped from None
        except NoetlError as error:
            raise MissingValue(name, error) from None
        value = await decode_stored(body)
        if len(body) <= CACHED_BYTES:
            cache.put(key, (len(body), value))
        return value

    async def _stored(self, value: JSON) -> JSON:
        """The mark of a value, which is in the result store by then."""
        known = self._marks.get(id(value))
        if known is not None:
            return known
        driver, body = self._driver, encode(value)
        failpoint("worker.before-store-value")
        worker = driver.worker
        ref = await retry(worker.clock, lambda: worker.results.put(driver.execution_id, body, "application/json"))
        failpoint("worker.after-store-value")
        return mark(ref)

    async def _inputs(self, input: dict[str, JSON]) -> dict[str, JSON]:
        """An input, with marks in place of large values."""
        large = {key: await self._stored(value) for key, value in input.items() if stored_bytes(value)}
        return {**input, **large} if large else input

    async def record(self, fact: TaskDone) -> TaskDone:
        """The fact for the log: large values of `set` and of `picked` are stored. Call it after the frame advanced."""
        work = self._driver.work
        frame, marks = work.frame, dict(work.place.marks)
        written = _widened(fact.set, marks, {"ctx": frame.ctx, "step": frame.step, "iter": frame.iter})
        for target, value in written.items():
            for known in [each for each in marks if each == target or each.startswith(f"{target}.")]:
                del marks[known]
            if stored_bytes(value):
                written[target] = marks[target] = await self._stored(value)
        self._driver.work = replace(work, place=replace(work.place, marks=marks))
        picked = await self.record_picked(fact.picked)
        stored = tuple(target for target, value in written.items() if ref_of(value) is not None)
        if picked is not fact.picked:
            stored = (*stored, "output.data")
        return replace(fact, set=written, picked=picked, stored=stored)

    async def record_picked(self, picked: dict[str, JSON] | None) -> dict[str, JSON] | None:
        """What routing reads from an output, with marks in place of large parts; the same object without any."""
        if picked is None:
            return None
        left, large = PICKED_BYTES_MAX, dict[str, JSON]()
        for key, entry in picked.items():
            value = entry.get("is")
            size = len(encode(value)) if isinstance(value, str | list | dict) else 0
            if stored_bytes(value) or size > left:
                large[key] = {"is": await self._stored(value)}
            else:
                left -= size
        return {**picked, **large} if large else picked

    async def record_parked(self, parked: FrameParked) -> FrameParked:
        """The fact for the log, without large values in the input of a block or a child."""
        until = parked.until
        if isinstance(until, ForBlock):
            around = None if until.iter is None else await self._inputs(until.iter)
            input = await self._inputs(until.input)
            if input is not until.input or around is not until.iter:
                return replace(parked, until=replace(until, input=input, iter=around), stored=True)
        elif isinstance(until, ForChild):
            workload = await self._inputs(until.workload)
            if workload is not until.workload:
                return replace(parked, until=replace(until, workload=workload), stored=True)
        return parked

    # Decisions for control

    async def make_decision(self, decision: Decision) -> None:
        """Decide with all values at hand, and send the decision to control."""
        delegation, program = decision
        state = thaw(delegation.state)
        fact: Fact | None = None
        failure: Failure | None = None
        try:
            name = f"a value that {delegation.decision} reads"
            refs = refs_read(program, state, delegation.decision)
            values = await self._fetch([(name, ref) for ref in refs], state.workload)
            complete = msgspec.convert(filled(msgspec.to_builtins(state), values), State)
            made = decide(program, complete, delegation.decision, self._driver.now())
            fact = await self._recorded_decision(made, state, complete)
        except MissingValue as missing:
            failure = missing.failure
        except NoetlError:
            raise Stopped from None  # the store does not respond, or a result is damaged: nothing is decided
        command = Decide(decision=delegation.decision, digest=delegation.digest, fact=fact, error=failure)
        worker, execution_id = self._driver.worker, self._driver.execution_id
        failpoint("worker.before-decide")
        try:
            await retry(worker.clock, lambda: worker.link.command(execution_id, command))
        except (Rejected, NotFound):
            return  # the execution has ended or is paused, or another worker was faster

    async def _recorded_decision(
        self, made: Fact | ToStore | ToRead | None, state: State, complete: State
    ) -> Fact | None:
        """The decision for the log: large values are stored."""
        match made:
            case ToStore(items, started):
                return await self._loop_started(items, started)
            case ToRead(ref, started):
                read = await read_items(self._driver, ref, complete.workload)
                if isinstance(read, Failure):
                    return facts.StepFailed(run=started.run, error=read)
                return await self._loop_started(read, started)
            case facts.StepScheduled(input=input):
                return replace(made, input=await self._inputs(input))
            case facts.NextEvaluated(tokens=tokens):
                tokens = tuple([replace(token, input=await self._inputs(token.input)) for token in tokens])
                return await self._with_writes(replace(made, tokens=tokens), state, complete)
            case facts.FrameResumed():
                return await self._with_writes(made, state, complete)
            case facts.LoopDone() | facts.StepFailed(run=str()):
                return await self._loop_ended(made, state, complete)
        return made

    async def _with_writes(
        self, fact: facts.NextEvaluated | facts.FrameResumed | facts.LoopDone, state: State, complete: State
    ) -> Fact:
        marks = {f"ctx.{path}": value for path, value in _marked(state.ctx, self._values)}
        after = {"ctx": patched(complete.ctx, of_ctx(fact.set))}
        written = _widened(fact.set, marks, after)
        for target, value in written.items():
            if stored_bytes(value):
                written[target] = await self._stored(value)
        stored = dict.fromkeys((*fact.stored, *(target for target, value in written.items() if ref_of(value))))
        return replace(fact, set=written, stored=tuple(stored))

    async def _loop_ended(
        self, fact: facts.LoopDone | facts.StepFailed, state: State, complete: State
    ) -> facts.LoopDone | facts.StepFailed:
        output, pipeline = fact.output, self._driver.work.pipeline
        ref = output.ref if output is not None and output.data is None else None
        if ref is not None and (pipeline.picks or pipeline.failure_picks):
            results = decode(await self._driver.worker.refs.get(ref))
            picked = await self.record_picked(pick_results(self._driver.work, results))
            fact = replace(fact, picked=picked)
        if isinstance(fact, facts.StepFailed):
            return fact
        made = await self._with_writes(fact, state, complete)
        assert isinstance(made, facts.LoopDone)
        return made

    async def _loop_started(self, items: list[JSON], started: facts.LoopStarted) -> Fact:
        ref = await put_pages(self._driver.worker.results, self._driver.execution_id, items)
        return replace(started, count=len(items), ref=ref)


def _marked(tree: JSON, values: Mapping[str, JSON], path: tuple[str, ...] = ()) -> Iterable[tuple[str, JSON]]:
    """The paths whose values are replaced when the tree is filled, with their marks."""
    for key, value in tree.items():
        if filled(value, values) is not value:
            if type(value) is dict and ref_of(value) is None:
                yield from _marked(value, values, (*path, key))
            else:
                yield ".".join((*path, key)), value


def _widened(written: dict[str, JSON], marks: Mapping[str, JSON], roots: Mapping[str, JSON]) -> dict[str, JSON]:
    """Writes below a stored value become writes of the whole value, as it is in `roots` afterwards."""
    made: dict[str, JSON] = {}
    for target, value in written.items():
        outer = next((each for each in marks if target.startswith(f"{each}.")), None)
        if outer is not None:
            root, path = split(outer)
            target, value = outer, at_path(roots[root], path)
        made.pop(target, None)
        made[target] = value
    return made
