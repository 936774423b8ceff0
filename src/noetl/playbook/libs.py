"""Modules for the code of `python` tasks, in the text of a playbook under the root key `libs` (D108).

A playbook on a server has no files beside it. With its modules in its text it has one digest, one version and one size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from collections.abc import Mapping as Libs
from typing import Final

from noetl.playbook.source import Mapping, Scalar, Sequence, Tree, parse, plain

KEY: Final = "libs"
LIBS_MAX: Final = 100  # modules of a playbook; all of them are part of its text, whose size is limited
_PLAIN: Final = r"[A-Za-z0-9_][A-Za-z0-9_./-]*"
# A block scalar cannot hold control characters, or line breaks that YAML would change. Compiled at first use, because
# that takes long and most playbooks have no modules.
_NOT_IN_BLOCK: Final = r"[^\n\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufdcf\ufdf0-\ufefe\uff00-\ufffd]"


def is_lib_name(name: str) -> bool:
    """Whether it is a relative path of a Python file."""
    parts = name.split("/")
    return (
        name.endswith(".py")
        and all(part not in ("", ".", "..", ".py") for part in parts)
        and name.isprintable()
        and "\\" not in name
    )


def with_libs(text: str, libs: Libs[str, str]) -> str | None:
    """The text of a playbook with modules at its end; None: its last lines do not permit it."""
    lines = [text if text.endswith("\n") else f"{text}\n", f"{KEY}:\n"]
    for name, body in libs.items():
        lines.append(f"  {name if re.fullmatch(_PLAIN, name) else json.dumps(name)}: {_scalar(body)}\n")
    combined = "".join(lines)
    before, after = (parse(each, bytes_max=len(each.encode())) for each in (text, combined))
    data = plain(before.document.root)
    if before.problems or after.problems or not isinstance(data, dict):
        return None
    return combined if plain(after.document.root) == {**data, KEY: dict(libs)} else None


def _scalar(text: str) -> str:
    """A block of lines where YAML can hold the text in one, else text in quotes."""
    if not text.strip() or re.search(_NOT_IN_BLOCK, text):
        return json.dumps(text)
    end = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")
    indent = "2" if text.lstrip("\n").startswith((" ", "\t")) or text.startswith("\n") else ""
    return f"|{indent}{end}\n" + "\n".join(f"    {line}" if line else "" for line in lines)


def python_sources(tree: Tree | None) -> Iterator[tuple[str, str]]:
    """("code" or "script", its value) of every `python` task of a document."""
    match tree:
        case Mapping(entries=entries):
            if isinstance(kind := entries.get("kind"), Scalar) and kind.value == "python":
                for key in ("code", "script"):
                    match entries.get(key):
                        case Scalar(value=str(value)):
                            yield key, value
            for each in entries.values():
                yield from python_sources(each)
        case Sequence(items=items):
            for each in items:
                yield from python_sources(each)
