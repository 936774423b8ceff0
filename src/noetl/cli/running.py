"""The border around every command: errors become words and exit codes, a closed pipe ends in silence."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from noetl.cli.exits import EXIT_CODES, Usage
from noetl.errors import PlaybookError


def run(command: Callable[[], int]) -> int:
    """Do it, and say how it ended. A bug is not caught: it is meant to be loud."""
    _prepare_streams()
    try:
        code = command()
        sys.stdout.flush()
        return code
    except Usage as error:
        from noetl.escape import visible

        print(f"noetl: {visible(str(error))}", file=sys.stderr)
        return EXIT_CODES[Usage]
    except PlaybookError as error:
        from noetl.cli.checking import show_problems
        from noetl.cli.screen import Screen

        screen = Screen(sys.stderr)
        show_problems(error.problems, "", screen, rich=screen.colour)
        return EXIT_CODES[PlaybookError]
    except BrokenPipeError:
        _give_up_output()
        return EXIT_CODES[BrokenPipeError]
    except OSError as error:
        _give_up_output()
        print(f"noetl: {error.strerror or error}", file=sys.stderr)
        return EXIT_CODES[OSError]
    except KeyboardInterrupt:
        return EXIT_CODES[KeyboardInterrupt]


def _prepare_streams() -> None:
    """A closed stream swallows what is written; a locale without Unicode gets escapes. Neither is a crash."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _give_up_output() -> None:
    """Nobody takes it: what is left in the buffer must not raise again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
