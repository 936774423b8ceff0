"""File paths in the fields of a task, relative to the directory of the playbook file."""

from __future__ import annotations

from pathlib import Path

from noetl.tools.errors import InvalidInput


def absolute_path(label: str, path: str, folder: str | None) -> Path:
    """`path` itself, or inside the playbook's `folder`. Raises InvalidInput; `label` begins its message."""
    if "\0" in path:
        raise InvalidInput(f"{label} contains a NUL character, which is not allowed")
    if Path(path).is_absolute():
        return Path(path)
    if folder is None:
        raise InvalidInput(
            f'{label} "{path}" is relative, but this playbook was not read from a file; use an absolute path'
        )
    return Path(folder) / path


def path_inside(label: str, path: str, folder: str | None) -> Path:
    """The same, but a relative path must not leave the playbook's folder. Raises InvalidInput."""
    found = absolute_path(label, path, folder)
    if Path(path).is_absolute() or folder is None:
        return found
    if not found.resolve().is_relative_to(Path(folder).resolve()):
        raise InvalidInput(f'{label} "{path}" leads outside the playbook\'s directory; use an absolute path')
    return found
