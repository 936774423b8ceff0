"""`noetl record`: the calls of an execution in a file, as answers for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli.execute import OK, Reporter
from noetl.cli.options import Db, Format, Id, Server, Yes, app, confirmed, on_execution
from noetl.views.styled_text import Styled

if TYPE_CHECKING:
    from pathlib import Path

    from noetl.replay.cassette import CassetteFiles
    from noetl.session.execution import Execution

SHOWN_MAX = 20


@app.command()
def record(
    id: Id,
    *,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The cassette: orders.cassette.yaml.")],
    with_files: Annotated[
        bool,
        typer.Option("--with-files", help="Include files that tools have stored; secrets in them are not masked."),
    ] = False,
    yes: Yes = False,
    db: Db = None,
    server: Server = None,
    format: Format = "auto",
) -> None:
    """Write the calls of an execution and their answers into a cassette for tests.

    First it lists what it will store. On a terminal it then asks for confirmation; elsewhere it writes only with --yes.
    The file has the workload, signals, and the output of each call, but no inputs. Values of keys such as `password`
    are replaced by `***`. Large bodies are stored compressed in a folder beside the file. Review both before you
    share them. JSON is `{file, calls, bodies, redacted, left_out, written}`.

    \b
    Examples:
      noetl record last -o tests/orders.cassette.yaml
      noetl record 0199b3c2 -o orders.cassette.yaml --yes
    """

    async def work(reporter: Reporter, execution: Execution) -> int:
        from pathlib import Path

        from noetl.session.recordings import record as make

        made = await make(execution, Path(output), files=with_files)
        _print_plan(reporter, made, output)
        if written := confirmed(reporter, f"write {output}?", yes=yes):
            _write(made, Path(output))
        counts = {"bodies": len(made.bodies), "redacted": made.redacted, "left_out": made.left_out}
        reporter.document({"file": output, "calls": made.calls, **counts, "written": written})
        return OK

    on_execution(format, id, db, server, work)


def _write(made: CassetteFiles, file: Path) -> None:
    from noetl.cli.output.documents import write_file

    for folder in {file.parent, *((file.parent / name).parent for name in made.bodies)}:
        folder.mkdir(parents=True, exist_ok=True)
    for name, body in made.bodies.items():
        write_file(str(file.parent / name), body)
    write_file(str(file), made.text.encode())


def _print_plan(reporter: Reporter, made: CassetteFiles, file: str) -> None:
    from noetl.net.describe import count

    if reporter.json:
        return
    screen = reporter.screen
    size = sum(map(len, made.bodies.values()))
    bodies = f", {count(len(made.bodies), 'body')} beside it ({size:,} bytes)" if made.bodies else ""
    bodies = bodies.replace("bodys", "bodies")
    screen.line(Styled(file, "strong"), f": {len(made.text.encode()):,} bytes{bodies}")
    for place, (name, number) in enumerate(made.calls.items()):
        if place == SHOWN_MAX:
            screen.line(f"  … and {len(made.calls) - SHOWN_MAX:,} more tasks")
            break
        screen.line("  ", Styled(name, "name"), f": {count(number, 'call')}")
    for key, number in made.redacted.items():
        screen.line(f'  "{key}" is replaced by ***, {count(number, "time")}')
    if made.left_out:
        screen.line(f"  {count(made.left_out, 'stored file')} left out: --with-files includes them")
