"""`noetl schema`: the language as a JSON Schema, with the tools that are installed."""

from __future__ import annotations

import json

from noetl.cli import files
from noetl.cli.exits import OK
from noetl.cli.loading import installed
from noetl.playbook.json_schema import json_schema


def run_schema(out: str | None) -> int:
    text = json.dumps(json_schema(installed()), ensure_ascii=False, indent=2)
    files.put(f"{text}\n".encode(), out)
    return OK
