"""Environment variables and arguments for programs that tools start, from values of a task."""

from __future__ import annotations

from noetl.output import JSON
from noetl.tools.errors import InvalidInput


def environment_variables(values: dict[str, JSON] | None) -> dict[str, str]:
    """The field `env` of a task as text; null values are left out. Raises InvalidInput."""
    made: dict[str, str] = {}
    for name, value in (values or {}).items():
        if not name or "=" in name or "\0" in name:
            raise InvalidInput(f'"{name}" is not a valid name of an environment variable')
        if value is not None:
            made[argument_text(name, "`env`")] = argument_text(value, f"environment variable {name}")
    return made


def argument_text(value: JSON, label: str) -> str:
    """A string that can be an argument or an environment variable. Raises InvalidInput."""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        raise InvalidInput(f"{label} must be text or a number; convert other values with `| tojson`")
    if "\0" in text:
        raise InvalidInput(f"{label} contains a NUL character, which is not allowed")
    return text.encode(errors="replace").decode()
