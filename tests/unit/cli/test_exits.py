"""One table of exit codes (STYLE.md, 2)."""

from __future__ import annotations

from noetl.cli.exits import EXIT_CODES, Usage
from noetl.errors import Damaged, NotFound, PlaybookError, Rejected, Unavailable


def test_every_error_has_its_exit_code() -> None:
    assert dict(EXIT_CODES) == {
        PlaybookError: 2,
        Usage: 2,
        Rejected: 1,
        NotFound: 1,
        Unavailable: 3,
        Damaged: 3,
        KeyboardInterrupt: 130,
        BrokenPipeError: 141,
        OSError: 3,
    }
