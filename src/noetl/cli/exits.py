"""Exception → exit code, in one table; and the one exception that belongs to the command line itself."""

from __future__ import annotations

from noetl.errors import Damaged, NoetlError, NotFound, PlaybookError, Rejected, Unavailable

OK = 0
FAILED = 1  # the execution ended in an error or was cancelled, or the command was refused
WRONG = 2  # the playbook or the usage
INTERRUPTED = 130  # as shells count: 128 and the number of the signal
BROKEN_PIPE = 141
AWAY = 3  # something outside: a full disk, a closed stream


class Usage(NoetlError):
    """What was asked for can not be done: a file that is not there, options that exclude each other."""


EXIT_CODES: dict[type[BaseException], int] = {
    PlaybookError: WRONG,
    Usage: WRONG,
    Rejected: FAILED,
    NotFound: FAILED,
    Unavailable: AWAY,
    Damaged: AWAY,
    KeyboardInterrupt: INTERRUPTED,
    BrokenPipeError: BROKEN_PIPE,
    OSError: AWAY,
}
