"""The page of the comparison with others: given figures in, the tables out. No engine runs here."""

from __future__ import annotations

import pytest

from benchmarks.goals import OwnFigure
from benchmarks.peers.chart import draw, read_table
from benchmarks.peers.engines import ALL
from benchmarks.peers.orders import Measured
from benchmarks.peers.page import GOALS, PROFILES, Report, render

FIGURES = {
    ("floor", "rows"): {0: Measured(5_000), 1: Measured(4_000), 2: Measured(6_000)},
    ("floor", "W4"): {0: Measured(2_500.4)},
    ("floor", "W6"): {0: Measured(5.14, overhead_ms=1)},
    ("noetl_embedded", "W1"): {0: Measured(2_000), 1: Measured(1_000), 2: Measured(3_000)},
    ("noetl_embedded", "W3"): {0: Measured(1_500, 0.4, 0.6)},
    ("noetl_embedded", "W5"): {0: Measured(0.25, peak_mib=41)},
    ("noetl_embedded", "W6"): {0: Measured(5.2, overhead_ms=2)},
    ("noetl_distributed", "W1"): {0: Measured(400), 1: Measured(500)},
    ("prefect", "W1"): {0: Measured(100), 1: Measured(200), 2: Measured(100)},
    ("prefect", "W3"): {0: Measured(2.34, 10, 20)},
    ("prefect", "W5"): {0: Measured(2.5, peak_mib=108)},
    ("prefect", "W6"): {0: Measured(26, overhead_ms=90)},
    ("restate", "W1"): {0: Measured(800), 2: Measured(1_000)},
}
REPORT = Report(
    date="15 November 2026",
    machine="2 cores",
    mode="quick",
    rounds=3,
    versions={
        "noetl_embedded": "NoETL 0.1.0",
        "noetl_distributed": "NoETL 0.1.0",
        "prefect": "Prefect 3.8.8",
    },
    figures=FIGURES,
    missing={"restate": "it ended during W2; its log is .bench/logs/restate.log"},
)


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of each row that begins with it, one row a table."""
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(f"| {title} |")]
    return [cells[1:] for cells in lines]


def test_a_figure_is_the_median_of_its_rounds_and_a_smaller_workload_has_a_star() -> None:
    page = render(REPORT)
    assert rows(page, "**NoETL, embedded**") == [
        ["2,000", "–", "1,500 (p50 0.40 s, p99 0.60 s)", "–", "0.25 s, 41 MiB", "5.2 s (2.0 ms)"]
    ]
    assert rows(page, "Prefect")[0] == [
        "100", "–", "2.3 (p50 10.00 s, p99 20.00 s)\\*", "–", "2.50 s, 108 MiB", "26.0 s (90.0 ms)\\*",
    ]  # fmt: skip
    told = " ".join(page.split())
    assert "Prefect: W2 1,000 of 10,000, W3 50 of 1,000, W6 10 of 100; Temporal: W2 1,000 of" in told


def test_a_ratio_has_the_lowest_and_the_highest_of_the_rounds_that_both_have() -> None:
    _, embedded, _, distributed = rows(render(REPORT), "Prefect")
    assert embedded == ["**20** (5.0–30)", "–", "**641**", "–", "**10.0**", "**5.0**"]
    assert distributed == ["**3.2** (2.5–4.0)", "–", "–", "–", "–"]
    assert rows(render(REPORT), "Restate")[1][0] == "**2.8** (2.5–3.0)"


def test_a_missed_goal_says_by_how_much_and_what_the_profile_shows() -> None:
    page = render(REPORT)
    assert rows(page, "**NoETL, embedded** W5") == [
        ["0.20 s", "0.25 s", "80 %", "two thirds are the import of modules"]
    ]
    (cells,) = rows(page, "**NoETL, distributed** W1 to Restate")
    assert cells[:3] == ["1.5", "0.50", "33 %"]
    assert "NATS" in cells[3]
    reached = {("noetl_embedded", "W1"): {0: Measured(3_501)}}
    (cells,) = rows(render(REPORT._replace(figures=reached)), "**NoETL, embedded** W1")
    assert cells == ["3,500 steps/s", "3,501", "100 %"]


def test_whoever_was_not_measured_is_in_the_table_with_the_reason() -> None:
    page = render(REPORT)
    assert rows(page, "DBOS, SQLite") == [["–"] * 6, ["–"] * 6, ["–"] * 5, ["–"] * 5]
    assert "The figures of Restate are incomplete: it ended during W2; its log is .bench/logs/restate.log." in page


def test_a_workload_that_old_figures_lack_needs_a_new_run() -> None:
    told = "W6 has no figures, because this run did not measure it: a new run is needed."
    assert told not in render(REPORT)
    old = {key: rounds for key, rounds in FIGURES.items() if key[1] != "W6"}
    assert told in render(REPORT._replace(figures=old))


def test_the_floor_the_machine_and_the_versions_are_told() -> None:
    told = " ".join(render(REPORT).split())
    assert "15 November 2026; 2 cores; NoETL 0.1.0, Prefect 3.8.8." in told
    assert "5,000 rows/s in SQLite" in told
    assert "2,500 pages/s of W4 with asyncio" in told
    assert "; 5.1 s for W6 in the same way." in told


def test_every_engine_but_the_floor_has_a_row_and_a_word_about_it() -> None:
    page = render(REPORT)
    for engine in ALL[1:]:
        assert f"| {engine.title} |" in page
        assert f"- {engine.title}: " in page


def test_the_chart_shows_the_rates_of_the_page() -> None:
    table = read_table(render(REPORT))
    assert table["NoETL, embedded"] == [2_000, None, 1_500, None]
    assert table["Prefect"] == [100, None, 2.3, None]
    chart = draw(table)
    assert all(f">{shown}</text>" in chart for shown in ("2,000", "1,500", "100", "2.3", "Restate"))
    assert "prefers-color-scheme: dark" in chart


def test_own_figures_have_their_goals_and_a_missed_one_says_what_the_profile_shows() -> None:
    own = {
        "check of 1,000 steps": OwnFigure(0.5, "s", "2026-11-17"),
        "check of 1,000 steps, full": OwnFigure(1.0, "s", "2026-11-18"),
        "embedded: W6 100 executions": OwnFigure(5.4, "s", "2026-11-18"),
        "webhooks: W7 from the request": OwnFigure(1.5, "ms", "2026-11-18"),
        "webhooks: 200 a second, median": OwnFigure(5, "ms", "2026-11-18"),
    }
    page = render(REPORT._replace(own=own))
    assert "(2026-11-17 to 2026-11-18)" in page
    assert rows(page, "check of 1,000 steps") == [["≤ 0.6", "0.5 s", "yes"]]
    assert rows(page, "check of 1,000 steps, full")[0][:3] == ["≤ 0.6", "1 s", "60 %"]
    assert rows(page, "check of 1,000 steps, full")[0][3].startswith("a third is reading")
    assert rows(page, "webhooks: W7 from the request")[0][:2] == ["", "1.5 ms"]
    assert not rows(page, "embedded: W6 100 executions")  # the first table has W6
    assert not rows(page, "webhooks: 200 a second, median")  # it has no goal
    assert "More figures" not in render(REPORT)


def test_a_missed_goal_that_nobody_has_profiled_is_an_error() -> None:
    own = {
        "webhooks: 200 a second, p99": OwnFigure(101, "ms", "2026-11-18"),
        "neighbours: beside tokens without end, p99 against alone": OwnFigure(2.1, "x", "2026-11-18"),
        "large: list": OwnFigure(0.6, "s", "2026-11-18"),
        "large: list of errors": OwnFigure(0.5, "s", "2026-11-18"),
    }
    with pytest.raises(ValueError, match=r"missed goals without a text .*: webhooks: 200 a second, p99; large: list\."):
        render(REPORT._replace(own=own))


def test_every_goal_of_a_workload_has_a_profile() -> None:
    assert set(PROFILES) == {(engine, workload) for engine, goals in GOALS.items() for workload in goals}
    assert all(PROFILES.values())
