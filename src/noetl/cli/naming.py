"""Is a word on the command line a file or an execution? It imports nothing heavy: every `explain` asks."""

from __future__ import annotations

import os
import re

_ID = re.compile(r"last|[0-9a-fA-F][0-9a-fA-F-]{0,35}")


def means_execution(given: str, step: str | None) -> bool:
    """With a step beside it always; alone when it is an id, or the beginning of one, and no file."""
    return step is not None or (_ID.fullmatch(given) is not None and not os.path.exists(given))
