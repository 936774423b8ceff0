"""Text as Markdown shows it: what all generated pages have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable


def prose(text: str) -> str:
    """Markdown that shows the text as it is: outside of code, stars and angles would mean something."""
    parts = text.replace("|", "\\|").split("`")
    for place in range(0, len(parts), 2):
        parts[place] = parts[place].replace("*", "\\*").replace("<", "&lt;")
    return "`".join(parts)


def slug(heading: str) -> str:
    """The anchor that Markdown makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Rows that are Markdown already."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return lines + [f"| {' | '.join(cells)} |" for cells in rows]
