"""Resolves Refs: data in a result store, or the results of a loop, which are in the log.

`ExecutionResults` is what the tools of one execution get: it refuses the results of other executions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from hashlib import sha256

from msgspec.json import decode, encode

from noetl.cache import BoundedCache
from noetl.engine.scopes import is_foreign, is_ref, named_results, owner_of, result_key
from noetl.engine.stored import filled, key_of, marks_on
from noetl.errors import Damaged, NotFound, Rejected
from noetl.json_slices import decode_stored
from noetl.masking import Mask
from noetl.output import JSON, Output
from noetl.paging import SliceableStore, is_json
from noetl.ports import Link, ResultStore
from noetl.slices import in_slices
from noetl.worker.result_stores import StoreSelector

SLICE_MAX = 1_000_000
PARENTS_MAX = 4_096  # cached by a worker
DEPTH_MAX = 64  # more than children can be nested


class Refs:
    """A result store that also resolves Refs to the results of loops (D30)."""

    def __init__(self, results: ResultStore, link: Link) -> None:
        self._results = results
        self._link = link

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        return await self._results.put(execution_id, body, content_type)

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        return await self._results.write(execution_id, chunks, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        if not _is_loop(ref):
            return await self._results.get(ref)
        return b"".join([chunk async for chunk in self.read(ref)])

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        """For a loop, one iteration after the other: the whole list is never in memory."""
        if not _is_loop(ref):
            async for chunk in self._results.read(ref):
                yield chunk
            return
        digest = sha256(b"[")
        yield b"["
        for index, output in enumerate(await self._outputs(ref)):
            chunk = (b"," if index else b"") + await self._body(output)
            digest.update(chunk)
            yield chunk
        digest.update(b"]")
        expected = (ref.get("meta") or {}).get("sha256")  # None: the results were too large to know it
        if expected is not None and expected != digest.hexdigest():
            raise Damaged("the results of a loop have changed since it ended")
        yield b"]"

    async def part(self, ref: dict[str, JSON], first: int | None, last: int | None) -> list[JSON] | None:
        """A slice of the results of a loop, as in Python; None: the Ref does not refer to a loop."""
        if not _is_loop(ref):
            return None
        count = (ref.get("meta") or {}).get("count")
        if not isinstance(count, int) or not 0 <= count <= SLICE_MAX:
            return None
        wanted = range(count)[first:last]
        return [decode(await self._body(output)) for output in await self._outputs(ref, wanted)]

    def select(self, wanted: Mapping[str, JSON]) -> ResultStore:
        if not isinstance(self._results, StoreSelector):
            raise Rejected("unknown-store", "this worker has only one result store")
        return Refs(self._results.select(wanted), self._link)

    async def _outputs(self, ref: dict[str, JSON], only: range | None = None) -> list[Output | None]:
        where = ref["locator"]
        return await self._link.iterations(str(where["execution_id"]), str(where["run"]), only)

    async def _body(self, output: Output | None) -> bytes:
        """JSON of one result: null for a failed iteration; a Ref of its own is resolved."""
        if output is None or output.data is not None or output.ref is None:
            return encode(output.data if output is not None else None)
        if not is_json(output.ref):
            return encode(output.ref)  # a file: the reader resolves it if needed
        return await self.get(output.ref)


def _is_loop(ref: dict[str, JSON]) -> bool:
    """Whether it refers to a loop in a log; tables of results are relational, too. Raises NotFound."""
    where = ref.get("locator")
    if ref.get("type") != "relational" or (isinstance(where, dict) and "store" in where):
        return False
    if not isinstance(where, dict) or not {"execution_id", "run"} <= where.keys():
        raise NotFound(f"no result {str(where)[:140]}")
    return True


class Lineage:
    """Which executions were started by which. A worker asks once for each execution: the answer never changes."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._parents: BoundedCache[str, str] = BoundedCache(PARENTS_MAX)  # "": a request started it

    async def descends(self, execution_id: str, ancestors: Collection[str]) -> bool:
        """Whether a task of one of `ancestors` started the execution, directly or not. Raises Unavailable."""
        for _ in range(DEPTH_MAX):
            execution_id = await self._parent(execution_id)
            if execution_id in ancestors:
                return True
            if not execution_id:
                return False
        return False

    async def _parent(self, execution_id: str) -> str:
        known = self._parents.get(execution_id)
        if known is None:
            try:
                known = await self._link.parent(execution_id) or ""
            except NotFound:
                return ""
            self._parents.put(execution_id, known)
        return known


def _no_mask() -> Mask | None:
    """The call uses no credential."""
    return None


class ExecutionResults:
    """The result store as the tools of one execution see it.

    A Ref may come from data, so it may name any result. It is resolved if it names a result of this execution,
    of one that it called or was forked from, or if the request of this execution contains it under a name that
    ends in `_ref` (D99).
    """

    __slots__ = ("_execution_id", "_lineage", "_mask", "_named", "_origins", "_results", "_workload")

    def __init__(
        self,
        results: ResultStore,
        lineage: Lineage | None,
        execution_id: str,
        workload: Mapping[str, JSON],
        mask: Callable[[], Mask | None] = _no_mask,
        *,
        origins: Sequence[str] = (),
    ) -> None:
        """`lineage` None: only results of this execution, and of its request. `origins`: it was forked from these.

        `mask`: for the values of the credentials that the call has used, which no result may contain.
        """
        self._mask = mask
        self._results = results
        self._lineage = lineage
        self._execution_id = execution_id
        self._workload = workload
        self._origins = origins
        self._named: dict[str, str] | None = None  # the results that the workload names; None: not searched yet

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        mask = self._mask()
        body = body if mask is None else mask.body(body, content_type)
        return await self._results.put(execution_id, body, content_type)

    async def write(self, execution_id: str, chunks: AsyncIterator[bytes], content_type: str) -> dict[str, JSON]:
        mask = self._mask()
        if mask is None:
            return await self._results.write(execution_id, chunks, content_type)
        async with aclosing(mask.stream(chunks, content_type)) as masked:
            return await self._results.write(execution_id, masked, content_type)

    async def get(self, ref: dict[str, JSON]) -> bytes:
        await self.check(ref)
        return await self._results.get(ref)

    async def read(self, ref: dict[str, JSON]) -> AsyncIterator[bytes]:
        await self.check(ref)
        async for chunk in self._results.read(ref):
            yield chunk

    async def part(self, ref: dict[str, JSON], first: int | None, last: int | None) -> list[JSON] | None:
        if not isinstance(self._results, SliceableStore):
            return None
        await self.check(ref)
        return await self._results.part(ref, first, last)

    async def check_passed_on(self, workload: Mapping[str, JSON]) -> None:
        """A child trusts the Refs in its workload: its caller passes on only those that it may read itself.

        Raises as `check` does.
        """
        await self._check_named(await in_slices(named_results(workload)))

    async def check(self, ref: dict[str, JSON]) -> None:
        """Raises Rejected for a result of another execution, NotFound for a Ref that names no result, Unavailable."""
        if is_foreign(ref):
            system = str(ref["locator"]["system"])[:40]
            raise Rejected("foreign-system", f"the Ref names data in {system}: fetch it with a task of kind resolve")
        owner = owner_of(ref) if is_ref(ref) else None
        if owner is None:
            raise NotFound("no result: the Ref names no execution")
        await self._check_named({result_key(ref): owner})

    async def _check_named(self, results: dict[str, str]) -> None:
        """`results`: their executions, by `result_key`."""
        ours = {self._execution_id, *self._origins}
        others = {key: owner for key, owner in results.items() if owner not in ours}
        if not others:
            return
        if self._named is None:
            self._named = await in_slices(named_results(self._workload))
        others = _without(others, self._named)
        if self._lineage is not None:
            called = {each for each in set(others.values()) if await self._lineage.descends(each, ours)}
            others = {key: owner for key, owner in others.items() if owner not in called}
        if others:
            others = _without(others, await self._named_in_stored())
        for owner in others.values():
            message = f"the Ref names a result of execution {owner[:64]}, which this execution did not start"
            raise Rejected("foreign-ref", f"{message}: pass such a Ref in `workload`, under a name that ends in _ref")

    async def _named_in_stored(self) -> dict[str, str]:
        """The results that the workload names, also in its values that are too large for the log (D91)."""
        assert self._named is not None
        if refs := list(marks_on(self._workload, ())):
            values = {key_of(ref): await decode_stored(await self._results.get(ref)) for ref in refs}
            self._workload = filled(self._workload, values)
            self._named = await in_slices(named_results(self._workload))
        return self._named


def _without(results: dict[str, str], named: Mapping[str, str]) -> dict[str, str]:
    return {key: owner for key, owner in results.items() if key not in named}
