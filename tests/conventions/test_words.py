"""One word for one thing (STYLE.md, 1): words that identifiers must not use."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "noetl"
FORBIDDEN = frozenset(
    {
        "dag",
        "flow",
        "job",
        "node",
        "edge",
        "outcome",
        "orchestrator",
        "broker",
        "operator",
        "activity",
        "manager",
        "util",
    }
)
FORBIDDEN_MODULES = frozenset({"utils", "helpers", "common", "core", "base", "manager"})

# The old dialects keep their words, and the parser of Jinja has nodes.
EXCEPT = {
    "playbook/dialects": FORBIDDEN,
    "playbook/migrate.py": FORBIDDEN,
    "adapters/secrets/providers.py": {"manager"},  # `secret_manager` is a kind of the language
    "template/nodes.py": {"node"},
    "template/jinja.py": {"node"},
    "template/expressions.py": {"node"},
}


def identifiers(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(each.name)
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif isinstance(each, ast.arg):
            found.add(each.arg)
    return found


def words(identifier: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)}


def test_identifiers_use_our_words() -> None:
    wrong: list[tuple[str, str]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        allowed = {word for prefix, each in EXCEPT.items() if name.startswith(prefix) for word in each}
        found = sorted(identifiers(ast.parse(path.read_text())))
        wrong += [(name, each) for each in found if words(each) & FORBIDDEN - allowed]
    assert wrong == []


def test_no_module_has_a_generic_name() -> None:
    assert [path for path in SOURCE.rglob("*.py") if path.stem in FORBIDDEN_MODULES] == []
