"""The workload that a playbook declares, as far as its text says: enough to read what a person typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from noetl.output import JSON
from noetl.playbook.source import Document, plain

_READ: Final = re.compile(r"""\bworkload((?:\s*\.\s*[A-Za-z_]\w*|\s*\[\s*['"][^'"\]]{1,200}['"]\s*\])+)""")
_PART: Final = re.compile(r"""\.\s*([A-Za-z_]\w*)|\[\s*['"]([^'"\]]+)['"]""")
# `{{ workload }}`, `workload[name]` and `workload.items()`
_WHOLE: Final = re.compile(
    r"""\{[{%](?:(?!\}\}|%\}).){0,1000}?\bworkload\b(?:\s*\.\s*(?:get|items|keys|values)\s*\(|(?!\s*\.\s*[A-Za-z_]|\s*\[\s*['"]))""",
    re.DOTALL,
)
_CTX: Final = re.compile(r"""\bctx\s*(?:\.\s*([A-Za-z_]\w*)|\[\s*['"]([^'"\]]+)['"])""")
_WHOLE_CTX: Final = re.compile(_WHOLE.pattern.replace("workload", "ctx"), re.DOTALL)
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
        if _WHOLE_CTX.search(self.text) is not None:
            return None
        return frozenset(dotted or quoted for dotted, quoted in _CTX.findall(self.text))


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
        _WHOLE.search(text) is not None,
        text,
    )


def _reads(text: str) -> Iterator[str]:
    for count, found in enumerate(_READ.finditer(text)):
        if count >= _READS_MAX:
            return
        path = ""
        for dotted, quoted in _PART.findall(found[1]):
            path = f"{path}.{dotted or quoted}" if path else dotted or quoted
            yield path


def values_for(workload: WorkloadSource | None, declared: DeclaredWorkload) -> dict[str, JSON]:
    """The values of a request."""
    return dict(workload(declared) if callable(workload) else workload or {})
