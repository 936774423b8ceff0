"""The sizes of the benchmarks: full, or small with SMOKE=1, which only shows that they work."""

from __future__ import annotations

import os
from typing import Final

SMOKE: Final = os.environ.get("SMOKE", "") not in ("", "0")


def scaled(full: int, smoke: int) -> int:
    return smoke if SMOKE else full
