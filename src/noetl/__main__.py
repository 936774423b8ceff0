"""The command `noetl`. Every call pays for the imports here, so they are few."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] in (["--version"], ["-V"]):
        from noetl import __version__

        print(f"noetl {__version__}")
        return
    try:
        from noetl.cli.arguments import CheckOptions, parse

        options = parse(sys.argv[1:])
        if options is None:
            from noetl.cli.app import app

            app(prog_name="noetl")
        elif isinstance(options, CheckOptions):
            from noetl.cli.checker import check

            sys.exit(check(options))
        else:
            from noetl.cli.runner import run

            sys.exit(run(options))
    except KeyboardInterrupt:  # while modules are loaded; a command handles its own
        sys.exit(130)


if __name__ == "__main__":
    main()
