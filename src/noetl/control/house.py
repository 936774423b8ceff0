"""What control is given besides its ports: compiled playbooks, and the numbers that it goes by."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from noetl.net.program import Program


class Programs(Protocol):
    """Compiled playbooks: by digest for ever, by path for what starts now."""

    def by_digest(self, digest: str) -> Program: ...

    def by_path(self, path: str) -> Program:
        """Raises NotFound."""
        ...


class Settings(NamedTuple):
    partitions: int = 64
    lease_s: float = 30.0  # of a granted frame
    resend_s: float = 10.0  # a pointer that nobody followed is put again after this
