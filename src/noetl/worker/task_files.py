"""Digests of the files that are a part of the code of tasks: scripts, and modules beside a playbook."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple, TypeAlias

from noetl.cache import BoundedCache
from noetl.net.program import CompiledTask, UsedFiles
from noetl.tool import Tool, Tools

FILE_BYTES_MAX = 16 * 1024 * 1024  # of one file; a larger one is no code
LISTED_MAX = 20  # files of one task that the log lists; more share one digest
TASKS_MAX = 1_000  # in the cache
_NONE = UsedFiles()
_Stamp: TypeAlias = tuple[int, int, int] | None  # of a file: changed at, size, number; None: there is none


class _Known(NamedTuple):
    task: CompiledTask  # keeps its id valid
    stamps: dict[Path, _Stamp]
    used: UsedFiles


class TaskFiles:
    """Reads a file again only when it has changed."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._known: BoundedCache[tuple[int, str | None], _Known] = BoundedCache(TASKS_MAX)

    def __call__(self, task: CompiledTask, folder: str | None) -> UsedFiles:
        """`folder`: of the playbook; None: it has none here, and the digests are empty."""
        tool = self._tools.class_of(task.kind)
        if tool is None or tool.code_files.__func__ is Tool.code_files.__func__:  # type: ignore[attr-defined]
            return _NONE
        key = id(task), folder
        known = self._known.get(key)
        if known is None or any(_stamp(path) != stamp for path, stamp in known.stamps.items()):
            known = self._known.put(key, _read(tool, task, folder))
        return known.used


def _read(tool: type[Tool], task: CompiledTask, folder: str | None) -> _Known:
    source = task.source
    paths, complete = tool.code_files(source.fields if tool.free_input else source.input, folder)
    if folder is None:
        return _Known(task, {}, UsedFiles({}, complete))
    stamps = {path: _stamp(path) for path in paths}
    digests: dict[str, str] = {}
    for path, stamp in stamps.items():
        if stamp is None:
            continue
        body = _body(path)
        if body is None:
            complete = False
        else:
            name = str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
            digests[name] = hashlib.sha256(body).hexdigest()[:16]
    if len(digests) > LISTED_MAX:
        together = hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()[:16]
        digests = {f"{len(digests):,} files": together}
    return _Known(task, stamps, UsedFiles(digests, complete))


def _stamp(path: Path) -> _Stamp:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _body(path: Path) -> bytes | None:
    """None: it is not a file with code."""
    try:
        with path.open("rb") as file:
            body = file.read(FILE_BYTES_MAX + 1)
    except OSError:
        return None
    return body if len(body) <= FILE_BYTES_MAX else None
