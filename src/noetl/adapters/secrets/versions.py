"""Versions of values that bring none: the same for the same value, and no way back from one to the other."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Mapping

import msgspec

from noetl.secret import Secret


class Versions:
    """Digests under a key that is not on record: without it nobody can try passwords against the log."""

    def __init__(self, key: Callable[[], bytes | None]) -> None:
        """`key`: the house's own, so that two processes agree; None: one for this process must do."""
        self._find = key
        self._key: bytes | None = None

    def of(self, values: Mapping[str, Secret]) -> str:
        if self._key is None:
            self._key = hmac.digest(self._find() or os.urandom(32), b"noetl versions", "sha256")
        body = msgspec.json.encode(sorted((field, value.reveal()) for field, value in values.items()))
        return hmac.digest(self._key, body, "sha256").hex()[:12]
