"""Public class names are unique, and the names that the redesign replaced do not return."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/noetl"

# Package → names of modules and sub-packages that conventional ones replaced.
OLD_MODULES = {
    "": {"wiring", "house"},
    "runtime": {"house", "trial", "chores", "instruments"},
    "server": {
        "desk",
        "given",
        "gate",
        "patience",
        "rates",
        "ears",
        "tails",
        "followers",
        "thinking",
        "named",
        "drawn",
        "described",
        "texts",
        "house",
    },
    "control": {"house", "family", "relatives", "nearest", "posting", "items", "beats", "saving", "refusing"},
    "views": {"telling", "why_told", "tracks"},
    "testing": {"telling", "house", "world"},
    "cli": {
        "running",
        "executing",
        "carrying",
        "looking",
        "cataloguing",
        "overview",
        "following",
        "upping",
        "doctoring",
    },
    "net": {"weaving", "siding", "picking", "sheet", "words", "visible"},
    "template": {"weaving", "siding", "picking", "sheet", "words", "visible"},
    "drawing": {"weaving", "siding", "picking", "sheet", "words", "visible"},
    "link": {"parcels", "sealed", "answering", "texts"},
    "adapters": {"parcels", "sealed", "answering", "texts", "gathering", "troubles", "holding"},
    "engine": {"landing", "fitting", "inherit"},
}
OLD_CLASSES = [
    "House",
    "ServerHouse",
    "Crew",
    "Doorkeeper",
    "Voice",
    "Kit",
    "Shelf",
    "Disk",
    "Roster",
    "Asked",
    "Told",
    "Found",
    "Said",
]


@cache
def classes() -> dict[str, list[str]]:
    """Public top-level class → the modules that define it."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(SOURCE).as_posix())
    return dict(found)


def test_no_two_public_classes_share_a_name() -> None:
    assert {name: modules for name, modules in classes().items() if len(modules) > 1} == {}


def test_no_module_has_an_old_name() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for package, names in OLD_MODULES.items()
        for path in (SOURCE / package).rglob("*")
        if path.suffix in ("", ".py") and path.stem in names
    }
    assert found == set()


def test_no_class_has_an_old_name() -> None:
    old = {name: classes()[name] for name in OLD_CLASSES if name in classes()}
    old |= {"Token": [each for each in classes().get("Token", []) if each.startswith("ports/")]}
    assert {name: modules for name, modules in old.items() if modules} == {}
