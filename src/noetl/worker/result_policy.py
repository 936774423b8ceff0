"""How the results of a task are kept: `spec.result`, as its layers say together (D51, D60)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from noetl.engine.scopes import ABSENT, at_path
from noetl.errors import Rejected
from noetl.output import JSON, Output, failed
from noetl.playbook.model import INLINE_BYTES_MAX
from noetl.ports import ResultStore
from noetl.worker.compression import packed
from noetl.worker.result_stores import StoreSelector

INLINE_BYTES_LIMIT: Final = 1 << 20  # more than that never stands in the log, whatever a playbook says
PACKED_FROM: Final = 1_024  # bytes; less does not become smaller
SELECTED_BYTES_MAX: Final = 16_384  # of all that `select` keeps
COMPRESSIONS: Final = ("none", "gzip")
_LENGTH: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(s|m|h|d|w)?")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds_of(said: JSON) -> float | None:
    """A number of seconds, or `90s`, `30m`, `24h`, `7d`, `2w`; None: it is no length of time."""
    if isinstance(said, bool):
        return None
    found = _LENGTH.fullmatch(str(said).strip()) if isinstance(said, str | int | float) else None
    return float(found[1]) * _SECONDS[found[2] or "s"] if found else None


class ResultPolicy(NamedTuple):
    """What holds for one task."""

    inline_max: int = INLINE_BYTES_MAX
    store: Mapping[str, JSON] | None = None  # None: where all go
    ttl: JSON = None  # as it was written; None: as long as its execution is on record
    compression: str = "none"
    select: Mapping[str, str] = {}  # name → dotted path in the data

    @classmethod
    def of(cls, spec: Mapping[str, JSON]) -> ResultPolicy:
        """Raises Rejected for what is no way of keeping."""
        said = spec.get("result")
        if not isinstance(said, dict):
            return DEFAULT
        inline, store = said.get("inline_max_bytes", INLINE_BYTES_MAX), said.get("store")
        ttl, compression = said.get("ttl"), said.get("compression", "none")
        if not isinstance(inline, int) or isinstance(inline, bool) or inline < 0:
            raise Rejected("bad-spec", "spec.result.inline_max_bytes takes a number of bytes")
        if isinstance(store, str):
            store = {"kind": store}
        if store is not None and not isinstance(store, dict):
            raise Rejected("bad-spec", "spec.result.store takes a mapping with the `kind` of a store")
        if ttl is not None and seconds_of(ttl) is None:
            raise Rejected("bad-spec", "spec.result.ttl takes seconds, or a length of time as 24h or 7d")
        if compression not in COMPRESSIONS:
            raise Rejected("bad-spec", f"spec.result.compression is one of {', '.join(COMPRESSIONS)}")
        select = said.get("select") or {}
        if not isinstance(select, dict) or not all(isinstance(path, str) for path in select.values()):
            raise Rejected(
                "bad-spec", "spec.result.select takes a mapping from names to paths as `paging.next`"
            )
        return cls(min(inline, INLINE_BYTES_LIMIT), store, ttl, compression, select)

    def selected(self, output: Output) -> Output:
        """With the small values that are to stay, whatever becomes of the data."""
        if not self.select or output.data is None:
            return output
        found = {name: at_path(output.data, tuple(path.split("."))) for name, path in self.select.items()}
        kept = {name: value for name, value in found.items() if value is not ABSENT}
        if len(encode(kept)) > SELECTED_BYTES_MAX:
            message = f"spec.result.select keeps more than {SELECTED_BYTES_MAX:,} bytes: name smaller values"
            return failed("payload-too-large", message)
        return replace(output, meta={**output.meta, "select": kept})

    def store_in(self, results: ResultStore) -> ResultStore:
        """Raises Rejected when the one that is asked for is not there."""
        if self.store is None:
            return results
        if not isinstance(results, StoreSelector):
            raise Rejected(
                "unknown-store", "this worker has one result store, and `spec.result.store` asks for another"
            )
        return results.chosen(self.store)

    async def put(self, results: ResultStore, execution_id: str, body: bytes) -> dict[str, JSON]:
        """JSON that is too large for the log, in the store that is meant. Raises as a store does."""
        small = await packed(body) if self.compression == "gzip" and len(body) >= PACKED_FROM else body
        if len(small) >= len(body):
            return self.marked(execution_id, await results.put(execution_id, body, "application/json"))
        ref = await results.put(execution_id, small, "application/json")
        meta = {**ref["meta"], "encoding": "gzip", "unpacked_bytes": len(body)}
        return self.marked(execution_id, {**ref, "meta": meta})

    def marked(self, execution_id: str, ref: dict[str, JSON]) -> dict[str, JSON]:
        """With the time that it is to live, when it is the execution's own."""
        match ref:
            case {"locator": {"key": str(key)}, "meta": dict(meta)} if self.ttl is not None:
                if key.startswith(f"{execution_id}/"):
                    return {**ref, "meta": {**meta, "ttl": self.ttl}}
        return ref


DEFAULT: Final = ResultPolicy()
