"""`noetl init`: the command, its help, and the playbook that it writes."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.app import app
from noetl.cli.running import run

FIRST = """\
# A first playbook: `noetl check` says what is wrong with it, `noetl run` runs it.
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: hello}
workload: # what it works on; `--set name=Ada` gives another value
  name: world
workflow:
  - step: start # the one that runs first
    tool:
      kind: python # `noetl tools` lists all kinds
      input: {name: "{{ workload.name }}"}
      code: |
        def main(name):
            return {"text": f"hello, {name}"}
    set: {ctx.text: "{{ output.data.text }}"} # ctx is what steps give to others
    next: {arcs: [{step: shout, when: "{{ event.name == 'step.done' }}"}]} # where it goes on
  - step: shout
    tool: {kind: noop, input: {text: "{{ ctx.text | upper }}"}}
"""


@app.command()
def init(
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="A new file.")] = "hello.yaml",
) -> None:
    """Write a small playbook with comments, to begin with. No file is ever overwritten.

    \b
    Examples:
      noetl init
      noetl init playbooks/first.yaml
    """

    def command() -> int:
        from shlex import quote

        from noetl.cli import files

        files.make(file, FIRST.encode())
        typer.echo(f"{file} is written; run it: noetl run {quote(file)} --set name=Ada")
        return 0

    raise typer.Exit(run(command))
