"""`noetl schema`: the language as a JSON Schema, with the installed tools."""

from __future__ import annotations

from noetl.cli.execute import OK, Reporter
from noetl.cli.options import Out, app, finish


@app.command()
def schema(output: Out = None) -> None:
    """Print the JSON Schema of playbooks, for editors.

    \b
    Examples:
      noetl schema -o playbook.schema.json
      # yaml-language-server: $schema=playbook.schema.json
    """

    def command(_reporter: Reporter) -> int:
        import json

        from noetl.cli.checker import installed_kinds
        from noetl.cli.output.documents import put
        from noetl.playbook.json_schema import json_schema

        text = json.dumps(json_schema(installed_kinds()), ensure_ascii=False, indent=2)
        put(f"{text}\n".encode(), output)
        return OK

    finish("auto", command)
