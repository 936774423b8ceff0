"""Projection: the parts of a template that a worker evaluates where output.data is, for control (D52).

A part is the largest expression that reads output.data and otherwise only values that are the same for
worker and control. Its key is a digest of its syntax tree, so that both sides mean the same expression.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from noetl.template import nodes
from noetl.template.context import CompileContext, Expr, Read, Run, Scope
from noetl.template.limits import Meter
from noetl.template.values import JSON, RECORDED, TemplateError, Undefined, truth

PROJECTED = "_picked"  # the key of the projected values in a scope; no template can name it
ALL_DATA = ""  # the key of output.data as a whole, for a template that reads `output` itself
_STEADY = frozenset({"workload", "input", "execution_id"})  # equal for worker and control


class ProjectedPart(NamedTuple):
    """A part of a template that is evaluated where the data is."""

    key: str
    run: Run
    truth_only: bool  # only its truth is used, so a true value need not be stored


class Projection:
    """Collects the parts of one template while it is compiled, and replaces them with projected values."""

    def __init__(self) -> None:
        self.parts: dict[str, ProjectedPart] = {}
        self._inside = False

    def is_part(self, tree: nodes.Node) -> bool:
        return not self._inside and _is_closed(tree)

    def part(self, tree: nodes.ExprNode, context: CompileContext, *, truth_only: bool) -> Expr:
        self._inside = True
        try:
            expr = context.expression(tree, truth_only=truth_only)
        finally:
            self._inside = False
        key = f"{'?' if truth_only else ''}{_digest(tree)}"
        self.parts[key] = ProjectedPart(key, expr.run, truth_only)
        return replace(expr, run=lambda scope, _meter: _found(scope[PROJECTED], key))

    def whole(self) -> Expr:
        """`output` itself, with all of its data."""
        self.parts[ALL_DATA] = ProjectedPart(ALL_DATA, lambda scope, _meter: scope["output"]["data"], truth_only=False)

        def run(scope: Scope, _meter: Meter) -> JSON:
            return {**scope["output"], "data": _found(scope[PROJECTED], ALL_DATA)}

        return Expr(run, label="output", path=("output",))


def reads_data(reads: Iterable[Read]) -> bool:
    """Does one of the paths read output.data?"""
    return any(read.path == ("output",) or read.path[:2] == ("output", "data") for read in reads)


def _is_closed(tree: nodes.Node) -> bool:
    """Does it read output.data, and otherwise only values that are equal for worker and control?

    It does not recurse, because a tree may have any depth.
    """
    data = False
    trees = [tree]
    while trees:
        each = trees.pop()
        if isinstance(each, nodes.NameNode):
            if each.name not in _STEADY:
                return False
        elif _is_data(each):
            data = True
        elif isinstance(each, nodes.CallNode) and isinstance(each.node, nodes.NameNode):
            if each.node.name in RECORDED or each.node.name == "omit":
                return False
            trees.extend(child for child in each.children() if child is not each.node)
        else:
            trees.extend(each.children())
    return data


def _is_data(tree: nodes.Node) -> bool:
    """Is it `output.data` or `output['data']`?"""
    if not isinstance(tree, nodes.GetattrNode | nodes.GetitemNode) or not isinstance(tree.node, nodes.NameNode):
        return False
    if tree.node.name != "output":
        return False
    if isinstance(tree, nodes.GetattrNode):
        return tree.attr == "data"
    return isinstance(tree.arg, nodes.ConstNode) and tree.arg.value == "data"


def _digest(tree: nodes.Node) -> str:
    """Equal for equal expressions, regardless of their position and white space."""
    parts_text: list[str] = []
    rest: list[JSON] = [tree]
    while rest:
        each = rest.pop()
        if isinstance(each, nodes.Node):
            parts_text.append(each.kind)
            rest.extend(each.field_values())
        elif isinstance(each, list | tuple):
            parts_text.append(f"{len(each)} of")
            rest.extend(each)
        else:
            parts_text.append(repr(each))
    return hashlib.sha256("\0".join(parts_text).encode()).hexdigest()[:16]


def evaluate_parts(parts: Iterable[ProjectedPart], scope: Scope) -> Iterator[tuple[str, dict[str, JSON]]]:
    """The value of each part, or its error, by its key. All parts share one meter."""
    meter = Meter()
    for part in parts:
        try:
            value = _run(part.run, scope, meter)
        except TemplateError as error:
            yield part.key, {"error": error.message, **_path(error.path)}
            continue
        if type(value) is Undefined:
            yield part.key, {"undefined": value.text, **_path(value.path)}
        else:
            yield part.key, {"is": True if part.truth_only and truth(value) else value}


def _run(run: Run, scope: Scope, meter: Meter) -> JSON:
    """Evaluate a part with the same errors as its template would raise."""
    try:
        return run(scope, meter)
    except (TemplateError, AssertionError):
        raise
    except RecursionError:
        raise TemplateError("the data is nested too deeply") from None
    except Exception as error:
        raise TemplateError("it cannot be evaluated") from error


def _path(path: tuple[str | int, ...] | None) -> dict[str, JSON]:
    return {} if path is None else {"path": list(path)}


def error_entry(kind: str, message: str) -> dict[str, JSON]:
    """An error in place of a value that is not recorded."""
    return {"error": message, "kind": kind}


def _found(picked: Mapping[str, JSON], key: str) -> JSON:
    """The result of the worker for a part, as if it were evaluated here."""
    entry = picked.get(key)
    if entry is None:
        raise TemplateError("the part of output.data that it reads is not recorded")
    if "is" in entry:
        return entry["is"]
    path = tuple(entry["path"]) if "path" in entry else None
    if "undefined" in entry:
        return Undefined(entry["undefined"], path)
    error = TemplateError(entry["error"], path)
    error.kind = entry.get("kind", error.kind)
    raise error
