"""Markdown helpers that all generated pages share."""

from __future__ import annotations

import re
from collections.abc import Iterable


def prose(text: str) -> str:
    """Escape the text for Markdown: outside of code, stars and angle brackets have a meaning."""
    parts = text.replace("|", "\\|").split("`")
    for place in range(0, len(parts), 2):
        parts[place] = parts[place].replace("*", "\\*").replace("<", "&lt;")
    return "`".join(parts)


def slug(heading: str) -> str:
    """The anchor that Markdown derives from a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table; the cells are Markdown already."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return lines + [f"| {' | '.join(cells)} |" for cells in rows]
