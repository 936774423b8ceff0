"""The metrics as a page for people: the guide holds this text between two marks, and a test compares them."""

from __future__ import annotations

from typing import Final

from noetl.telemetry.metrics import Measures

BEGIN: Final = "<!-- metrics -->"
END: Final = "<!-- end of metrics -->"


def metrics_table() -> str:
    """Every metric with its kind, its labels and its meaning, in Markdown."""
    rows = [
        f"| `{meter.name}` | {meter.kind} | {' '.join(f'`{label}`' for label in meter.labels) or '–'} "
        f"| {meter.meaning} |"
        for meter in Measures().book.meters
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def with_table(page: str) -> str:
    """The page with the table as it should be between its marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{metrics_table()}\n{END}{tail}"
