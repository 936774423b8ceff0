"""The modules beside a playbook that Python code imports, found in its text: the code is not run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from noetl.tool import CodeFiles

MODULES_MAX = 500  # of one task
MODULE_BYTES_MAX = 1024 * 1024
# With one of these names, code can read files that no import statement names.
_READS = frozenset({
    "open", "read_text", "read_bytes", "exec", "eval", "compile", "__import__", "importlib", "runpy", "pkgutil",
    "subprocess", "system", "popen",
})  # fmt: skip


def modules_beside(code: str, file: Path | None, folders: list[Path]) -> CodeFiles:
    """`file`: that has the code. `folders`: where modules are looked for, besides the standard library."""
    found: dict[Path, None] = {}
    complete, todo = True, [(code, file)]
    while todo:
        text, place = todo.pop()
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            complete = False
            continue
        complete = complete and not any(_reads_files(part) for part in ast.walk(tree))
        for path in _candidates(tree, place, folders):
            if path in found:
                continue
            if len(found) >= MODULES_MAX:
                return CodeFiles(tuple(found), complete=False)
            found[path] = None
            try:
                if path.is_file() and path.stat().st_size <= MODULE_BYTES_MAX:
                    todo.append((path.read_text("utf-8"), path))
            except (OSError, UnicodeError):
                complete = False
    return CodeFiles(tuple(found), complete)


def _reads_files(part: ast.AST) -> bool:
    match part:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.ImportFrom(module=str(name)):
            return name.partition(".")[0] in _READS
    return False


def _candidates(tree: ast.Module, file: Path | None, folders: list[Path]) -> Iterator[Path]:
    """The files that the import statements would load, if they exist."""
    for part in ast.walk(tree):
        match part:
            case ast.Import(names=names):
                for each in names:
                    yield from _files(each.name.split("."), folders)
            case ast.ImportFrom(module=module, names=names, level=0):
                for each in names:
                    yield from _files([*(module or "").split("."), *_submodule(each)], folders)
            case ast.ImportFrom(module=module, names=names, level=level) if file is not None:
                package = [file.parents[min(level, len(file.parents)) - 1]]
                for each in names:
                    parts = [*(module.split(".") if module else ()), *_submodule(each)]
                    yield from _files(parts, package, top=False)


def _submodule(name: ast.alias) -> list[str]:
    return [] if name.name == "*" else [name.name]


def _files(parts: list[str], folders: list[Path], *, top: bool = True) -> Iterator[Path]:
    if top and parts[0] in sys.stdlib_module_names:  # it takes precedence over the files of a playbook
        return
    for folder in folders:
        for end in range(1, len(parts) + 1):
            place = folder.joinpath(*parts[:end])
            yield place.with_name(f"{place.name}.py")
            yield place / "__init__.py"
