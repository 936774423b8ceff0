"""Dependencies and hooks are passed to constructors: no package assigns an attribute of another package's object.

The test is static. It collects the attributes of the classes that run executions, and searches all other packages
for assignments to an attribute of that name. An object counts as one of these classes unless an annotation or a
constructor call in the same function shows another class. To replace a method counts only if the class or the
name of the object is known.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "noetl"
# The classes that are assembled once and then run.
PROTECTED = {
    "Children", "Control", "Dispatch", "LoopData", "OwnerLink", "PartitionOwners", "ExecutionOwners", "Timers",
    "Worker", "FrameDriver", "Keychain", "Toolbox",
    "EmbeddedRuntime", "Instrumentation", "LocalServer", "ServerRuntime", "WorkerRuntime", "DevCluster",
    "BackgroundTasks",
}  # fmt: skip
# What variables of these classes are called: `embedded_runtime`, `runtime`.
NAMES = {part.lower() for name in PROTECTED for part in (name, re.findall("[A-Z][a-z]+", name)[-1])}
# These packages never see such objects: they import neither control nor worker (see the layers in pyproject.toml).
PURE = {"playbook", "template", "net", "check", "engine", "views", "drawing"}
SETATTR = 3  # arguments
_CLASS = re.compile(r"^class (\w+)", re.M)


class Attributes(NamedTuple):
    """Name → the packages whose protected classes have such an attribute."""

    values: dict[str, set[str]]  # assigned to `self`
    methods: dict[str, set[str]]


class Assignment(NamedTuple):
    line: int
    receiver: str  # the last name before the attribute: "control" in `self.control.store = …`
    kind: str  # its class; "" for an unknown one
    name: str


def package(path: Path) -> str:
    """The package of a module of ours; a top-level module is one of its own."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def protected() -> Attributes:
    found = Attributes({}, {})
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for each in ast.walk(ast.parse(text)) if PROTECTED.intersection(_CLASS.findall(text)) else ():
            if isinstance(each, ast.ClassDef) and each.name in PROTECTED:
                for inner in ast.walk(each):
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        found.methods.setdefault(inner.name, set()).add(package(path))
                    for receiver, name in assigned(inner):
                        if is_self(receiver):
                            found.values.setdefault(name, set()).add(package(path))
    return found


def intrusions(text: str, own: str, known: Attributes) -> list[tuple[int, str]]:
    """Line and attribute of each assignment in a module of the package `own`."""
    return [
        (each.line, each.name)
        for each in assignments(ast.parse(text))
        if is_foreign(each, own, known.values)
        or ((each.kind or each.receiver in NAMES) and is_foreign(each, own, known.methods))
    ]


def is_foreign(each: Assignment, own: str, known: dict[str, set[str]]) -> bool:
    return each.kind in (*PROTECTED, "") and bool(known.get(each.name, {own}) - {own})


def assignments(tree: ast.AST) -> Iterator[Assignment]:
    """All assignments to attributes of objects other than `self`."""
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            known = classes_of_names(scope)
            for each in own_nodes(scope):
                for receiver, name in assigned(each):
                    if not is_self(receiver):
                        kind = known.get(receiver.id, "") if isinstance(receiver, ast.Name) else ""
                        yield Assignment(receiver.lineno, name_of(receiver), kind, name)


def assigned(each: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Object and attribute, of assignments and of `setattr`."""
    for found in (inner for target in targets(each) for inner in ast.walk(target)):
        if isinstance(found, ast.Attribute) and isinstance(found.ctx, ast.Store):
            yield found.value, found.attr
    if isinstance(each, ast.Call) and name_of(each.func) == "setattr" and len(each.args) == SETATTR:
        receiver, name, _ = each.args
        if isinstance(name, ast.Constant):
            yield receiver, str(name.value)


def targets(each: ast.AST) -> list[ast.expr]:
    if isinstance(each, ast.Assign):
        return each.targets
    if isinstance(each, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
        return [each.target]
    if isinstance(each, ast.With | ast.AsyncWith):
        return [item.optional_vars for item in each.items if item.optional_vars is not None]
    return []


def classes_of_names(scope: ast.AST) -> dict[str, str]:
    """The classes of parameters and local variables, as far as annotations and constructor calls show them."""
    found: dict[str, str] = {}
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        found |= {each.arg: class_in(each.annotation) for each in arguments if each.annotation is not None}
    for each in own_nodes(scope):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = class_in(each.annotation)
        elif isinstance(each, ast.Assign) and isinstance(each.value, ast.Call):
            for target in each.targets:
                if isinstance(target, ast.Name) and name_of(each.value.func)[:1].isupper():
                    found[target.id] = name_of(each.value.func)
    return found


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of functions inside it."""
    for each in ast.iter_child_nodes(scope):
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each
            yield from own_nodes(each)


def is_self(value: ast.AST) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def name_of(value: ast.AST) -> str:
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def class_in(annotation: ast.AST) -> str:
    """`Control`, also in `Control | None`, `"Control"` and `noetl.control.executions.Control`."""
    if isinstance(annotation, ast.BinOp):
        return class_in(annotation.left)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rpartition(".")[2]
    return name_of(annotation.value if isinstance(annotation, ast.Subscript) else annotation)


def test_every_protected_class_exists() -> None:
    assert PROTECTED - {name for path in SOURCE.rglob("*.py") for name in _CLASS.findall(path.read_text())} == set()


def test_no_package_assigns_attributes_of_another_packages_objects() -> None:
    known = protected()
    wrong = {
        str(path.relative_to(SOURCE)): found
        for path in sorted(SOURCE.rglob("*.py"))
        if package(path) not in PURE and (found := intrusions(path.read_text(), package(path), known))
    }
    assert wrong == {}


PLANTED = {
    "a method": "control.command = watch\n",
    "two attributes at once": "def f(node):\n    node.control.store, node.control.queue = a, b\n",
    "a part of Control": "def f(control: Control):\n    control.dispatch._window_of = f\n",
    "a runtime in a with": "async def f():\n    async with open() as runtime:\n        runtime.watchers = []\n",
    "setattr": "def f(worker: 'Worker'):\n    setattr(worker, 'on_log_line', [])\n",
    "a flag": "def f(worker: Worker | None):\n    worker.draining |= True\n",
    "a loop variable": "for worker.name in names:\n    pass\n",
    "in a method": "class A:\n    def f(self):\n        self.runtime._background = None\n",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_assignment_is_found(planted: str) -> None:
    assert intrusions(PLANTED[planted], "cli", protected()) != []


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def __init__(self):\n        self.store = 1\n",
        "def f(row: Row):\n    row.name = 'x'\n",
        "row = Row()\nrow.name = 'x'\n",
        "control = Control(store=1)\n",
        "print(control.store)\n",
        "gauge.read = f\n",
    ],
)
def test_other_code_is_not_found(text: str) -> None:
    assert intrusions(text, "cli", protected()) == []
