"""The filter for shell scripts: `raw_shell` inserts a value as a part of the script."""

from __future__ import annotations

from noetl.template.limits import Meter, json_text
from noetl.template.registry import BuiltinTable, register
from noetl.template.values import JSON

SHELL_FILTERS: BuiltinTable = {}


@register(
    SHELL_FILTERS,
    "any|raw_shell",
    "In `sh` of a `shell` task: inserts the value as a part of the script, which the shell interprets",
    ("{{ 'ls -l'|raw_shell }}", '"ls -l"'),
)
def raw_shell(meter: Meter, value: JSON) -> str:
    return json_text(value, meter)
