"""The files beside a playbook that a shell command names, found in its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from noetl.output import JSON

WORDS_MAX = 1_000  # of one command
SCRIPT_SUFFIXES = frozenset({
    ".awk", ".bash", ".js", ".jq", ".lua", ".mjs", ".php", ".pl", ".ps1", ".py", ".r", ".rb", ".sed", ".sh", ".sql",
    ".ts", ".zsh",
})  # fmt: skip
_WORD = re.compile(r"[^\s'\"`;&|<>(){}$=]+")


def scripts_named(fields: Mapping[str, JSON], folder: str) -> Iterator[Path]:
    """Programs by a path (`./convert`) and files with code (`load.sql`); other files are data."""
    cwd = fields.get("cwd")
    base = Path(folder) / cwd if isinstance(cwd, str) and "{{" not in cwd else Path(folder)
    argv, script = fields.get("argv"), fields.get("sh")
    words = argv if isinstance(argv, list) else _WORD.findall(script) if isinstance(script, str) else ()
    for word in words[:WORDS_MAX]:
        if isinstance(word, str) and "{{" not in word and "\0" not in word and _is_code(word):
            path = base / word
            if path.is_relative_to(folder):
                yield path


def _is_code(word: str) -> bool:
    return word.startswith("./") or Path(word).suffix.lower() in SCRIPT_SUFFIXES
