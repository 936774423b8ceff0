"""Which values are Refs by their origin (D99). A mapping in data that only looks like a Ref is data.

A Ref is the `ref` of an output, the value of a name that ends in `_ref`, or a mapping that the author wrote.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.scopes import all_writes
from noetl.output import JSON
from noetl.playbook.model import Block, Pipeline, Playbook, Task
from noetl.playbook.source import Path
from noetl.template.compile import BadTemplate, compile_template
from noetl.template.values import is_template

SUFFIX = "_ref"
_NAMED = frozenset({"ctx", "step", "iter", "input", "workload"})


class RefOrigins:
    """The origins of one playbook."""

    def __init__(self, playbook: Playbook) -> None:
        self._playbook = playbook
        written = {tuple(target.split(".")) for writes, _ in all_writes(playbook) for target in writes}
        self.ctx_targets = {target for target in written if target[0] == "ctx"}
        self._named: set[Path] = {target for target in written if target[-1].endswith(SUFFIX)}
        # `ctx.page` may receive data, so `ctx.page.next_ref` is no origin if both are targets.
        self._targets = {
            target for target in self._named if not any(target[:size] in written for size in range(2, len(target)))
        }

    def same_as(self, other: RefOrigins) -> bool:
        """Are the same names of this and another playbook Refs?"""
        return self._named == other._named and self._targets == other._targets

    def is_named(self, path: Path, owner: Pipeline) -> bool:
        """Does the author's name say that the value at the path is a Ref (D54)? Names inside data do not count."""
        path = _outermost(path)
        if len(path) != 2:
            return path in self._named
        return self._is_output(path, owner) or (path[0] in _NAMED and str(path[1]).endswith(SUFFIX))

    def is_ref(self, path: Path, owner: Pipeline, task: Task | None = None) -> bool:
        """Is the value at the path a Ref? `task`: the one whose input is part of `input` there."""
        return self._is_ref(path, owner, task, ())

    def gives_ref(self, value: JSON, owner: Pipeline, task: Task | None = None) -> bool:
        """Is the written value a Ref: a template that is such a path, or a mapping with the fields of a Ref?"""
        return self._gives_ref(value, owner, task, ())

    def refs_in(self, value: JSON, owner: Pipeline, at: Path = ()) -> Iterator[Path]:
        """The places in the written value that are Refs."""
        if at and self.gives_ref(value, owner):
            yield at
        elif isinstance(value, dict | list):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self.refs_in(each, owner, (*at, key))

    def _is_ref(self, path: Path, owner: Pipeline, task: Task | None, seen: tuple[str, ...]) -> bool:
        path = _outermost(path)
        if path in self._targets or self._is_output(path, owner):
            return True
        if len(path) != 2 or not str(path[1]).endswith(SUFFIX):
            return False
        return path[0] == "workload" or (path[0] == "input" and self._input(str(path[1]), owner, task, seen))

    def _is_output(self, path: Path, owner: Pipeline) -> bool:
        if len(path) != 2 or path[1] != "ref":
            return False
        return path[0] == "output" or any(path[0] == each.name for each in owner.tasks)

    def _gives_ref(self, value: JSON, owner: Pipeline, task: Task | None, seen: tuple[str, ...]) -> bool:
        if isinstance(value, dict):
            kind = value.get("type")
            return isinstance(kind, str) and not is_template(kind) and "locator" in value
        if not isinstance(value, str) or "ref" not in value or not is_template(value):
            return False
        try:
            path = compile_template(value).sole_path
        except BadTemplate:
            return False
        return path is not None and self._is_ref(path, owner, task, seen)

    def _input(self, key: str, owner: Pipeline, task: Task | None, seen: tuple[str, ...]) -> bool:
        """Is every value that is bound to this key of `input` a Ref?"""
        if task is not None and key in task.input:
            return self._gives_ref(task.input[key], owner, None, seen)
        if not isinstance(owner, Block):
            return self._gives_ref(owner.input.get(key), owner, None, seen)
        if owner.name in seen:
            return False
        calls = [
            self._gives_ref(each.input[key], caller, None, (*seen, owner.name))
            for caller in self._playbook.pipelines
            for each in caller.tasks
            if each.kind == "workbook" and each.fields.get("block") == owner.name and key in each.input
        ]
        return bool(calls) and all(calls)


def _outermost(path: Path) -> Path:
    """A path in the iteration around this one has the same rules as one in this iteration."""
    while path[:2] == ("iter", "parent"):
        path = ("iter", *path[2:])
    return path
