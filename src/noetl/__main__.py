"""The command `noetl`. What every call pays for is imported here, so it is next to nothing."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from noetl import __version__

        print(f"noetl {__version__}")
        return
    try:
        from noetl.cli import quick

        if (asked := quick.parse(sys.argv[1:])) is not None:
            from noetl.cli.running import run

            sys.exit(run(quick.command(asked)))
        from noetl.cli.app import app

        app(prog_name="noetl")
    except KeyboardInterrupt:  # while modules were loaded; a command handles its own
        sys.exit(130)


if __name__ == "__main__":
    main()
