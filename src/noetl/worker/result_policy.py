"""How the results of a task are stored: the effective `spec.result` of all layers (D51, D60)."""

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
from noetl.worker.result_stores import StoreSelector, compress

INLINE_BYTES_LIMIT: Final = 1 << 20  # upper limit for data in the log, whatever a playbook says
COMPRESS_FROM: Final = 1_024  # bytes; less does not become smaller
SELECTED_BYTES_MAX: Final = 16_384  # of all values that `select` keeps
COMPRESSIONS: Final = ("none", "gzip")
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*(s|m|h|d|w)?")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds_of(text: JSON) -> float | None:
    """A number of seconds, or `90s`, `30m`, `24h`, `7d`, `2w`; None: it is not a duration."""
    if isinstance(text, bool):
        return None
    found = _DURATION.fullmatch(str(text).strip()) if isinstance(text, str | int | float) else None
    return float(found[1]) * _SECONDS[found[2] or "s"] if found else None


class ResultPolicy(NamedTuple):
    """The policy of one task."""

    inline_max: int = INLINE_BYTES_MAX
    store: Mapping[str, JSON] | None = None  # None: the default store
    ttl: JSON = None  # as written; None: as long as its execution is in the log
    compression: str = "none"
    select: Mapping[str, str] = {}  # name → dotted path in the data

    @classmethod
    def of(cls, spec: Mapping[str, JSON]) -> ResultPolicy:
        """Raises Rejected for invalid options."""
        options = spec.get("result")
        if not isinstance(options, dict):
            return DEFAULT
        inline, store = options.get("inline_max_bytes", INLINE_BYTES_MAX), options.get("store")
        ttl, compression = options.get("ttl"), options.get("compression", "none")
        if not isinstance(inline, int) or isinstance(inline, bool) or inline < 0:
            raise Rejected("bad-spec", "spec.result.inline_max_bytes must be a number of bytes")
        if isinstance(store, str):
            store = {"kind": store}
        if store is not None and not isinstance(store, dict):
            raise Rejected("bad-spec", "spec.result.store must be a mapping with the `kind` of a store")
        if ttl is not None and seconds_of(ttl) is None:
            raise Rejected("bad-spec", "spec.result.ttl must be seconds, or a duration such as 24h or 7d")
        if compression not in COMPRESSIONS:
            raise Rejected("bad-spec", f"spec.result.compression must be one of {', '.join(COMPRESSIONS)}")
        select = options.get("select") or {}
        if not isinstance(select, dict) or not all(isinstance(path, str) for path in select.values()):
            raise Rejected(
                "bad-spec", "spec.result.select must be a mapping from names to paths such as `paging.next`"
            )
        return cls(min(inline, INLINE_BYTES_LIMIT), store, ttl, compression, select)

    def selected(self, output: Output) -> Output:
        """The output with the small values that `select` keeps, even if the data is stored elsewhere."""
        if not self.select or output.data is None:
            return output
        found = {name: at_path(output.data, tuple(path.split("."))) for name, path in self.select.items()}
        kept = {name: value for name, value in found.items() if value is not ABSENT}
        if len(encode(kept)) > SELECTED_BYTES_MAX:
            message = f"spec.result.select keeps more than {SELECTED_BYTES_MAX:,} bytes: name smaller values"
            return failed("payload-too-large", message)
        return replace(output, meta={**output.meta, "select": kept})

    def store_in(self, results: ResultStore) -> ResultStore:
        """The store that the policy names. Raises Rejected when there is no such store."""
        if self.store is None:
            return results
        if not isinstance(results, StoreSelector):
            raise Rejected(
                "unknown-store", "this worker has one result store, and `spec.result.store` names another"
            )
        return results.select(self.store)

    async def put(self, results: ResultStore, execution_id: str, body: bytes) -> dict[str, JSON]:
        """Store JSON that is too large for the log. Raises as a store does."""
        small = await compress(body) if self.compression == "gzip" and len(body) >= COMPRESS_FROM else body
        if len(small) >= len(body):
            return self.with_ttl(execution_id, await results.put(execution_id, body, "application/json"))
        ref = await results.put(execution_id, small, "application/json")
        meta = {**ref["meta"], "encoding": "gzip", "unpacked_bytes": len(body)}
        return self.with_ttl(execution_id, {**ref, "meta": meta})

    def with_ttl(self, execution_id: str, ref: dict[str, JSON]) -> dict[str, JSON]:
        """The Ref with its time to live, if it belongs to this execution."""
        match ref:
            case {"locator": {"key": str(key)}, "meta": dict(meta)} if self.ttl is not None:
                if key.startswith(f"{execution_id}/"):
                    return {**ref, "meta": {**meta, "ttl": self.ttl}}
        return ref


DEFAULT: Final = ResultPolicy()
