"""A step at another place of the workflow: the same model with other paths."""

from __future__ import annotations

from typing import Final, TypeVar

from msgspec.structs import replace

from noetl.playbook.model import Arc, Block, Guard, Loop, Policy, Rule, Step, Task

_Part = TypeVar("_Part", Step, Block, Task, Policy, Rule, Loop, Arc, Guard)

# The parts of a part that have paths, too.
_INSIDE: Final[dict[type, tuple[str, ...]]] = {
    Step: ("loops", "tasks", "admit", "arcs", "compensate"),
    Block: ("loops", "tasks"),
    Task: ("policy",),
    Policy: ("rules",),
}


def moved(part: _Part, place: int) -> _Part:
    """A step, or a part of one, as it is when the step is at this place of the workflow."""
    changes: dict[str, object] = {"at": ("workflow", place, *part.at[2:])}
    for name in _INSIDE.get(type(part), ()):
        inside = getattr(part, name)
        if inside:
            several = isinstance(inside, tuple)
            changes[name] = tuple(moved(each, place) for each in inside) if several else moved(inside, place)
    return replace(part, **changes)
