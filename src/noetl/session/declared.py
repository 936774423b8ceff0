"""The workload that a playbook declares, as far as its text says: enough to read what a person typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from noetl.output import JSON
from noetl.playbook.source import Document, plain

_READ: Final = r"""\bworkload((?:\s*\.\s*[A-Za-z_]\w*|\s*\[\s*['"][^'"\]]{1,200}['"]\s*\])+)"""
_PART: Final = r"""\.\s*([A-Za-z_]\w*)|\[\s*['"]([^'"\]]+)['"]"""
# `{{ workload }}`, `workload[name]` and `workload.items()`
_WHOLE: Final = (
    r"""(?s)\{[{%](?:(?!\}\}|%\}).){0,1000}?\bworkload\b"""
    r"""(?:\s*\.\s*(?:get|items|keys|values)\s*\(|(?!\s*\.\s*[A-Za-z_]|\s*\[\s*['"]))"""
)
_CTX: Final = r"""\bctx\s*(?:\.\s*([A-Za-z_]\w*)|\[\s*['"]([^'"\]]+)['"])"""
_WHOLE_CTX: Final = _WHOLE.replace("workload", "ctx")
_READS_MAX: Final = 10_000


class DeclaredWorkload(NamedTuple):
    """Keys with their defaults, and the types of the inputs."""

    defaults: dict[str, JSON] = {}
    types: dict[str, JSON] | None = None  # by the names of the inputs; None: the playbook has no `input`
    reads: frozenset[str] = frozenset()  # `a` and `a.b`, for a template that reads workload.a.b
    reads_all: bool = False  # a template reads `workload` as a whole
    text: str = ""  # of the playbook

    def ctx_names(self) -> frozenset[str] | None:
        """The names below `ctx` that the text reads or writes; None: it reads `ctx` as a whole."""
        if re.search(_WHOLE_CTX, self.text) is not None:
            return None
        return frozenset(dotted or quoted for dotted, quoted in re.findall(_CTX, self.text))


ANYTHING: Final = DeclaredWorkload(types={})  # of a playbook that cannot run: its problems are what matters
WorkloadSource: TypeAlias = Mapping[str, JSON] | Callable[[DeclaredWorkload], Mapping[str, JSON]]


def declared_in(document: Document) -> DeclaredWorkload:
    workload, inputs = plain(document.find(("workload",))), plain(document.find(("input",)))
    types = None
    if isinstance(inputs, dict):
        types = {name: each.get("type") if isinstance(each, dict) else None for name, each in inputs.items()}
    text = document.text
    return DeclaredWorkload(
        workload if isinstance(workload, dict) else {},
        types,
        frozenset(_reads(text)),
        re.search(_WHOLE, text) is not None,
        text,
    )


def _reads(text: str) -> Iterator[str]:
    for count, found in enumerate(re.finditer(_READ, text)):
        if count >= _READS_MAX:
            return
        path = ""
        for dotted, quoted in re.findall(_PART, found[1]):
            path = f"{path}.{dotted or quoted}" if path else dotted or quoted
            yield path


def values_for(workload: WorkloadSource | None, declared: DeclaredWorkload) -> dict[str, JSON]:
    """The values of a request."""
    return dict(workload(declared) if callable(workload) else workload or {})
