"""Which keychain entries a task may use: by its templates, by its own fields, or through a Ref that it reads."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.program import CompiledTask
from noetl.playbook.model import Task
from noetl.playbook.source import Path


def used_credentials(task: Task) -> Iterator[tuple[str, Path]]:
    """The keychain entries that a task names, and where: below the task, or below its `input`."""
    if task.auth is not None:
        yield task.auth, ("auth",)
    if task.kind == "secrets" and isinstance(name := task.input.get("name"), str):
        yield name, ("input", "name")
    for side in ("source", "target") if task.kind == "transfer" else ():
        match task.input.get(side):
            case {"auth": str(name)}:
                yield name, (side, "auth")


def read_names(task: CompiledTask) -> frozenset[str] | None:
    """The entries that its templates read; None: they read `keychain` as a whole."""
    paths = [read.path for read in (*task.input.reads, *task.fields.reads) if read.path[0] == "keychain"]
    return None if any(len(path) == 1 for path in paths) else frozenset(str(path[1]) for path in paths)


def entry_names(task: CompiledTask) -> frozenset[str] | None:
    """All entries that a call of the task may use; None: any of them."""
    if task.kind == "resolve":
        return None  # the Ref names one, which only the call knows (D98)
    names = read_names(task)
    return None if names is None else names | {name for name, _ in used_credentials(task.source)}
