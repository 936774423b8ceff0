"""Scopes of control's templates, writes to ctx, and the limits of a write."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from noetl.engine.state import Run, State
from noetl.ids import frame_parts
from noetl.net.origins import SUFFIX
from noetl.net.program import CompiledPipeline
from noetl.output import JSON, REF_FIELDS, STORED, Failure
from noetl.template.compile import Moment, Template, Value


def base_scope(state: State, run: Run) -> dict[str, JSON]:
    """The scope of a run, with the current ctx (D74)."""
    return {
        "workload": state.workload,
        "ctx": state.ctx,
        "saved": state.saved,
        "execution_id": state.execution_id,
        "input": run.input,
        "step": run.values,
    }


def moment(value: Value | Template, at: datetime, seed: str) -> Moment | None:
    """The values that now() and uuid() are derived from (D17); None: the templates call neither."""
    return Moment(at.isoformat().replace("+00:00", "Z"), seed) if value.calls else None


def deadline(pipeline: CompiledPipeline, at: datetime) -> datetime | None:
    """The deadline of a run whose token is made now (D33)."""
    return None if pipeline.deadline_s is None else at + timedelta(seconds=pipeline.deadline_s)


def put(values: dict[str, JSON], path: tuple[str, ...], value: JSON) -> dict[str, JSON]:
    """A copy of the mapping with one value changed; the mapping itself stays unchanged."""
    first, *rest = path
    if not rest:
        return {**values, first: value}
    inner = values.get(first)
    return {**values, first: put(inner if isinstance(inner, dict) else {}, tuple(rest), value)}


def without(values: dict[str, JSON], path: tuple[str, ...]) -> dict[str, JSON]:
    """A copy of the mapping without this path."""
    first, *rest = path
    if first not in values:
        return values
    if not rest:
        return {key: value for key, value in values.items() if key != first}
    inner = values[first]
    return {**values, first: without(inner, tuple(rest))} if isinstance(inner, dict) else values


ABSENT = object()


def at_path(values: JSON, path: tuple[str, ...]) -> JSON:
    """The value at the path; ABSENT: there is none."""
    for part in path:
        if not isinstance(values, dict) or part not in values:
            return ABSENT
        values = values[part]
    return values


@lru_cache(maxsize=4096)
def split(target: str) -> tuple[str, tuple[str, ...]]:
    """ "ctx.user.name" → ("ctx", ("user", "name"))."""
    scope, *path = target.split(".")
    return scope, tuple(path)


def of_ctx(written: dict[str, JSON]) -> dict[str, JSON]:
    """The writes to ctx of a `set`, without the prefix "ctx."."""
    return {target[4:]: value for target, value in written.items() if target.startswith("ctx.")}


def patched(ctx: dict[str, JSON], writes: dict[str, JSON]) -> dict[str, JSON]:
    for path, value in writes.items():
        ctx = put(ctx, split(f"ctx.{path}")[1], value)
    return ctx


def write(state: State, run: Run, writes: dict[str, JSON]) -> None:
    """Apply writes to the frames that wait for this run, then to the execution.

    The writes of a parallel iteration stay private until its loop is done (D47). Callers see the writes of
    their blocks, but not those of other branches (D28a).
    """
    while run.parent is not None:
        owner, index = frame_parts(run.parent)
        run = state.runs[owner]
        frame = run.frames[index]
        frame.ctx = patched(frame.ctx, writes)
        if run.loop is not None and run.loop.parallel:
            frame.written = {**frame.written, **writes}
            return
    state.ctx = patched(state.ctx, writes)


def view(state: State, run: Run) -> dict[str, JSON]:
    """ctx, as the next frame of a run sees it."""
    if run.parent is None:
        return state.ctx
    owner, index = frame_parts(run.parent)
    return state.runs[owner].frames[index].ctx


def in_parallel(state: State, run: Run) -> bool:
    """Is the run inside a parallel iteration?"""
    while run.parent is not None:
        run = state.runs[frame_parts(run.parent)[0]]
        if run.loop is not None and run.loop.parallel:
            return True
    return False


CTX_BYTES_MAX = 1_048_576  # of all of ctx in the log, as JSON: without values that are in the result store
REF_TYPES = frozenset({"relational", "nats", "object_store", "blob"})  # D53
_REF_FIELDS = frozenset(REF_FIELDS)
_encoded = msgspec.json.Encoder().encode


def misfit(target: str, value: JSON, execution_id: str = "", *, origin: bool = False) -> Failure | None:
    """Why the value cannot have the name of the target ("ctx.rows_ref"); None: it can.

    A Ref is one by its origin, or it names a result of a store of ours: the reader of such a Ref checks whose
    result it is. All other mappings are data (D99).
    """
    if target.endswith(SUFFIX):
        if value is not None and not is_ref(value):
            return Failure(kind="reference", message=f'"{target}" takes a Ref, by its name')
        if value is not None and not origin and owner_of(value) is None:
            message = f'"{target}" takes a Ref, and this is data that looks like one: assign output.ref'
            return Failure(kind="reference", message=message)
    elif type(value) is dict and is_ref(value) and owner_of(value) == execution_id:
        return Failure(kind="reference", message=f'a Ref needs a name that ends in _ref, not "{target}"')
    return None


def ctx_misfit(ctx: dict[str, JSON]) -> Failure | None:
    """Why ctx cannot have this value; None: it can."""
    if len(_encoded(ctx)) <= CTX_BYTES_MAX:
        return None
    message = f"ctx would be over {CTX_BYTES_MAX:,} bytes in all: keep references instead"
    return Failure(kind="payload-too-large", message=message)


def is_ref(value: JSON) -> bool:
    if type(value) is not dict or "locator" not in value or not value.keys() <= _REF_FIELDS:
        return False
    kind = value.get("type")
    return type(kind) is str and kind in REF_TYPES


def has_ref(value: JSON) -> bool:
    """Is there a Ref, also deep inside?"""
    if type(value) is list:
        return any(map(has_ref, value))
    return type(value) is dict and (is_ref(value) or any(map(has_ref, value.values())))


def named_refs(value: JSON) -> Iterator[dict[str, JSON]]:
    """The Refs of a request that its execution trusts (D99): those under a name that ends in `_ref`, at any depth.

    Also the marks of stored values, which a caller may pass on (D91).
    """
    return (ref for ref in _search(value, named=False) if ref is not None)


def _search(value: JSON, *, named: bool) -> Iterator[dict[str, JSON] | None]:
    """The same, and None for all other values."""
    yield value if named and is_ref(value) else None
    if type(value) is dict:
        for key, each in value.items():
            yield from _search(each, named=key.endswith(SUFFIX) or key == STORED)
    elif type(value) is list:
        for each in value:
            yield from _search(each, named=named)


def named_results(value: JSON) -> Generator[None, None, dict[str, str]]:
    """The stored results that these Refs name: `result_key` → the execution whose result it is. It yields often."""
    found: dict[str, str] = {}
    for ref in _search(value, named=False):
        yield
        if ref is not None and (owner := owner_of(ref)) is not None:
            found[result_key(ref)] = owner
    return found


def result_key(ref: dict[str, JSON]) -> str:
    """Equal for Refs with the same locator."""
    return repr(sorted(ref["locator"].items()))


def owner_of(ref: dict[str, JSON]) -> str | None:
    """The execution whose stored result or loop this is; None: it is in a system that is not ours (D98)."""
    where = ref["locator"]
    if type(where) is not dict or is_foreign(ref):
        return None
    execution_id, key = where.get("execution_id"), where.get("key")
    if type(execution_id) is str:
        return execution_id
    return key.partition("/")[0] if type(key) is str else None


def is_foreign(ref: dict[str, JSON]) -> bool:
    """Does the Ref name data in a system of the author, and not the data of an output (D98)?"""
    where = ref.get("locator")
    return type(where) is dict and "system" in where
