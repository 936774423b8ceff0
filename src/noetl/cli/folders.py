"""Playbooks in folders: which files are looked at, and which of them say of themselves that they are one."""

from __future__ import annotations

import os
import re

from noetl.cli.exits import Usage
from noetl.cli.loading import Loaded, Refused
from noetl.playbook.source import Document, Scalar

SUFFIXES = (".yaml", ".yml")
FILES_MAX = 10_000  # in one folder and below it
# What the root of a playbook says of itself, for texts that are no YAML.
_SAYS = re.compile(r"^(apiVersion\s*:\s*[\"']?noetl\.io/|kind\s*:\s*[\"']?Playbook\b)", re.MULTILINE)


def files_in(folder: str) -> list[str]:
    """Also in the folders below, without those that are hidden. Links to folders are not followed.

    Raises Usage when there are too many.
    """
    names: list[str] = []
    for place, folders, inside in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        names += [
            os.path.join(place, name)
            for name in inside
            if name.lower().endswith(SUFFIXES) and not name.startswith(".")
        ]
        if len(names) > FILES_MAX:
            raise Usage(f"{folder}: more than {FILES_MAX:,} files: name folders inside of it")
    return sorted(names)


def is_playbook(loaded: Loaded | Refused) -> bool:
    """Does it say so itself? Whatever else is wrong with it, its author wants to know."""
    if isinstance(loaded, Refused):
        return _SAYS.search(loaded.text) is not None
    document = loaded.checked.document
    if _value(document, "kind") == "Playbook" or _value(document, "apiVersion").startswith("noetl.io/"):
        return True
    return _SAYS.search(document.text) is not None


def _value(document: Document, key: str) -> str:
    found = document.find((key,))
    return found.value if isinstance(found, Scalar) and isinstance(found.value, str) else ""
