"""The border around every command: errors become words and exit codes, a closed pipe ends in silence."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from noetl.cli.exits import BROKEN_PIPE, EXIT_CODES, INTERRUPTED, Usage
from noetl.errors import PlaybookError


def run(command: Callable[[], int]) -> int:
    """Do it, and say how it ended. A bug is not caught: it is meant to be loud."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a locale without Unicode is no reason to fall over
    try:
        code = command()
        sys.stdout.flush()
        return code
    except Usage as error:
        from noetl.net.visible import visible

        print(f"noetl: {visible(str(error))}", file=sys.stderr)
        return EXIT_CODES[Usage]
    except PlaybookError as error:
        from noetl.cli.checking import show_problems
        from noetl.cli.screen import Screen

        screen = Screen(sys.stderr)
        show_problems(error.problems, "", screen, rich=screen.colour)
        return EXIT_CODES[PlaybookError]
    except BrokenPipeError:
        give_up_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


def give_up_output() -> None:
    """Nobody reads any more: what is left in the buffer must not raise again when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
