"""The plugin seam: a tool describes itself by one class; `pip install` adds kinds, through entry points.

A tool's module must be light to import: what it needs for its work is imported when it works.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, Protocol

from msgspec import Struct

from noetl.output import JSON
from noetl.playbook.kinds import Kind, record_of


class NoKnobs(Struct):
    """A tool without knobs of its own."""


class Tool(Protocol):
    """One kind of work. Its structs give validation, JSON Schema and the reference page."""

    kind: ClassVar[str]  # its name in YAML
    Input: ClassVar[type[Struct]]  # its fields
    Spec: ClassVar[type[Struct]] = NoKnobs  # its knobs under `spec`, beside timeout, result and retry
    pure: ClassVar[bool] = False  # no effect on the world
    free_input: ClassVar[bool] = False  # `input` holds the author's own arguments (D9)
    one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()  # of each group of fields exactly one is given
    defaults: ClassVar[Mapping[str, JSON]] = {}  # the lowest layer of `spec`
    output: ClassVar[str | None] = None  # its own part of the output: "http" for output.http


class Tools:
    """The kinds that are there, imported when first used."""

    def __init__(self, found: Mapping[str, EntryPoint]) -> None:
        self._found = found

    @classmethod
    def installed(cls) -> Tools:
        return cls({point.name: point for point in entry_points(group="noetl.tools")})

    def kinds(self) -> dict[str, Kind]:
        """What the language must know of them."""
        return {name: describe(self._found[name].load()) for name in sorted(self._found)}


def describe(tool: type[Tool]) -> Kind:
    """A tool as the reader of playbooks sees it."""
    return Kind(
        name=tool.kind,
        doc=(tool.__doc__ or "").strip(),
        fields=record_of(tool.Input, f"{tool.kind} task"),
        knobs=record_of(tool.Spec, f"spec.{tool.kind}"),
        free_input=tool.free_input,
        pure=tool.pure,
        one_of=tool.one_of,
        defaults=tool.defaults,
        output=tool.output,
    )
