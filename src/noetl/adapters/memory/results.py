"""Payloads in memory, by execution and digest, checked when they are read."""

from __future__ import annotations

import hashlib

from noetl.errors import NotFound
from noetl.output import JSON


class MemoryResults:
    """Keeps the contract of ResultStore as long as the process lives."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    async def put(self, execution_id: str, body: bytes, content_type: str) -> dict[str, JSON]:
        digest = hashlib.sha256(body).hexdigest()
        key = f"{execution_id}/{digest}"
        self._bodies[key] = body
        meta = {"content_type": content_type, "bytes": len(body), "sha256": digest}
        return {"type": "blob", "locator": {"key": key}, "meta": meta}

    async def get(self, ref: dict[str, JSON]) -> bytes:
        key = ref["locator"].get("key")
        if key not in self._bodies:
            raise NotFound(f"no result {key}")
        body = self._bodies[key]
        assert hashlib.sha256(body).hexdigest() == ref["meta"]["sha256"], f"result {key} is damaged"
        return body
