"""One table of exit codes (STYLE.md, 2)."""

from __future__ import annotations

from noetl.cli.execute import EXIT_CODES
from noetl.errors import Damaged, InputError, NotFound, PlaybookError, Rejected, Unavailable
from noetl.session.errors import UsageError


def test_every_error_has_its_exit_code() -> None:
    assert dict(EXIT_CODES) == {
        PlaybookError: 2,
        UsageError: 2,
        InputError: 2,
        Rejected: 1,
        NotFound: 1,
        Unavailable: 3,
        Damaged: 3,
        KeyboardInterrupt: 130,
        BrokenPipeError: 141,
        OSError: 3,
    }
