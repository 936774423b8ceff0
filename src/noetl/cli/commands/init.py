"""`noetl init`: write a first playbook."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import app, finish

FIRST = """\
# A first playbook: `noetl check` reports its problems, `noetl run` runs it.
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: hello}
workload: # its input; `--set name=Ada` changes a value
  name: world
workflow:
  - step: start # the step that runs first
    tool:
      kind: python # `noetl tools` lists all kinds
      input: {name: "{{ workload.name }}"}
      code: |
        def main(name):
            return {"text": f"hello, {name}"}
    set: {ctx.text: "{{ output.data.text }}"} # steps share values in ctx
    next: {arcs: [{step: shout, when: "{{ event.name == 'step.done' }}"}]} # the next step
  - step: shout
    tool: {kind: noop, input: {text: "{{ ctx.text | upper }}"}}
"""


@app.command()
def init(file: Annotated[str, typer.Argument(metavar="[FILE]", help="The file to write.")] = "hello.yaml") -> None:
    """Write a small playbook with comments, to start from. It never overwrites a file.

    \b
    Examples:
      noetl init
      noetl init playbooks/first.yaml
    """

    def command(_reporter: Reporter) -> int:
        from shlex import quote

        from noetl.cli.output.documents import create_file

        create_file(file, FIRST.encode())
        typer.echo(f"{file} is written; run it: noetl run {quote(file)} --set name=Ada")
        return 0

    finish("auto", command)
