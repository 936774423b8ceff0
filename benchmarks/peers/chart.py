"""Draws figures as docs/images/benchmarks.svg: bars of the rates. It measures nothing.

`python -m benchmarks.peers.chart` draws the figures of the docs page again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "benchmarks.md"
CHART = ROOT / "docs" / "images" / "benchmarks.svg"
WORKLOADS = ("W1", "W2", "W3", "W4")  # rates: more is better
TITLES = {
    "W1": "W1: sequential steps/s",
    "W2": "W2: items of a loop/s",
    "W3": "W3: executions/s",
    "W4": "W4: pages of an API/s",
}
WIDTH, NAMES, BAR, ROW, GROUP = 760, 170, 460, 18, 30
# Readable on light and on dark pages: the text follows the colour scheme of the reader.
STYLE = """\
text { font: 12px sans-serif; fill: #1f2328 } .t { font-weight: bold } .n { fill: #0969da } .p { fill: #8c959f }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .n { fill: #4493f8 } .p { fill: #6e7681 } }"""

Table = Mapping[str, Sequence[float | None]]  # engine → a rate for each workload; None: it was not measured


def read_table(page: str) -> dict[str, list[float | None]]:
    """The first table of the page."""
    found: dict[str, list[float | None]] = {}
    for line in page.split("## Figures")[1].split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] and not set(cells[0]) <= {"-"}:
            rates = [re.match(r"[\d,.]+", cell) for cell in cells[1 : len(WORKLOADS) + 1]]
            found[cells[0].strip("*")] = [None if rate is None else float(rate[0].replace(",", "")) for rate in rates]
    return found


def draw(table: Table) -> str:
    """Logarithmic bars, because the rates differ by three orders of magnitude."""
    most = max(rate for rates in table.values() for rate in rates if rate is not None)
    parts, y = [], 20
    for column, workload in enumerate(WORKLOADS):
        parts.append(f'<text class="t" x="10" y="{y}">{TITLES[workload]}</text>')
        y += 6
        for engine, rates in table.items():
            if (rate := rates[column]) is None:
                continue
            width = max(2.0, BAR * log10(max(1.0, rate) + 1) / log10(most + 1))
            style = "n" if engine.startswith("NoETL") else "p"
            parts.append(f'<text x="{NAMES - 8}" y="{y + 13}" text-anchor="end">{escape(engine)}</text>')
            parts.append(f'<rect class="{style}" x="{NAMES}" y="{y + 3}" width="{width:.0f}" height="{ROW - 5}"/>')
            shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
            parts.append(f'<text x="{NAMES + width + 6:.0f}" y="{y + 13}">{shown}</text>')
            y += ROW
        y += GROUP
    label = "Rates of NoETL and other systems; the bars have a logarithmic scale, longer is faster"
    parts.append(f'<text x="10" y="{y - 12}">{label}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" aria-label="{label}">'
    return "\n".join((head, f"<style>{STYLE}</style>", *parts, "</svg>")) + "\n"


def write_chart() -> None:
    CHART.parent.mkdir(parents=True, exist_ok=True)
    CHART.write_text(draw(read_table(PAGE.read_text("utf-8"))), "utf-8")
    print(f"written: {CHART.relative_to(ROOT)}")


if __name__ == "__main__":
    write_chart()
