"""Figures in, docs/explanation/benchmarks.md out: text only, nothing is measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from textwrap import fill
from typing import NamedTuple

from benchmarks.peers.engines import DISTRIBUTED, EMBEDDED, FLOOR, PEERS, WHOLE, Engine
from benchmarks.peers.orders import Measured

Rounds = Mapping[int, Measured]  # by the number of the round; one that failed is not there
Figures = Mapping[tuple[str, str], Rounds]  # by engine and workload

UNITS = {"W1": "steps/s", "W2": "items/s", "W3": "executions/s", "W4": "pages/s", "W5": "cold start"}
WORKLOADS = """\
| | what |
|---|---|
| W1 | one execution of 1,000 steps, one after the other |
| W2 | one execution, a loop over 10,000 items, 100 in flight |
| W3 | 1,000 executions of 3 steps each, started together; p50 and p99 from the common start to an end |
| W4 | 50 endpoints × 20 pages of 100 JSON records, 10 endpoints in flight, every page a durable step |
| W5 | one execution of one step, from the shell to exit; peak memory of the largest process |

A task does nothing and returns `{"n": 1}`; in W4 it fetches one page and decodes it. The page server is the
same program for all, in a process of its own, and answers each request 1 ms late. Durable means: the result
of a step is synced to disk before the step that follows it starts.
"""
CLAIMS = """\
## What we do not claim

- These are engines around tasks that do nothing. Where tasks take seconds, all of them are quick enough.
- NoETL's task is `noop`, which runs in the process of the worker, as the functions of the peers run in
  theirs. Python code in a playbook runs in a child process and costs a fraction of a millisecond more a call:
  see `python: a warm call` of `make bench`.
- One machine and one disk, and W1 is as quick as a sync. On the same machine with the disk kept busy, when
  SQLite took some 350 rows/s one a commit, Restate was ahead in W1 (474 to 204 steps/s, two rounds) and
  behind in W2 to W5.
- Nobody was tuned: all run as they come, except where it is said above.
- Only Python is measured. Restate has SDKs for other languages, and its server is made for many machines.
- Figures of another machine, or of this one on another day, are different. The ratios are what we look at.

## Run it again

```shell
make bench PEERS=1        # our own figures, then this page with all sizes whole
make bench PEERS=quick    # the same with less to do for slow peers
.venv/bin/python -m benchmarks.against --quick    # this page alone
.venv/bin/python -m benchmarks.against --trial    # does it all work? The figures mean nothing
```

The peers are installed into `.bench/`, each into an environment of its own with all versions pinned
(`benchmarks/peers/*.txt`). What each round gave is in `.bench/figures.json`, the logs are in `.bench/logs/`.
"""


class Report(NamedTuple):
    """One whole run."""

    date: str
    machine: str
    mode: str  # whole, quick or trial
    rounds: int
    versions: Mapping[str, str]  # by engine
    figures: Figures
    missing: Mapping[str, str]  # by engine: why it has no figures, or not all


def render(report: Report) -> str:
    engines = (EMBEDDED, DISTRIBUTED, *PEERS)
    parts = [
        "# Measured against others",
        _how(report),
        WORKLOADS.strip(),
        "## The figures",
        "\n".join(_table(report)),
        *_gaps(report),
        _smaller(report),
        _floor(report),
        "## How many times as fast",
        _wrapped(
            "The median of the ratios of the rounds, in brackets the lowest and the highest of them. "
            "W5: how many times as long the other takes."
        ),
        "\n".join(_ratios(report, EMBEDDED)),
        "\n".join(_ratios(report, DISTRIBUTED)),
        "## What each of them does",
        "\n".join(f"- {engine.title}: {engine.notes}".replace("\n", "\n  ") for engine in engines),
        CLAIMS.strip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _wrapped(words: str) -> str:
    return fill(words, 110, break_long_words=False, break_on_hyphens=False)


def _how(report: Report) -> str:
    rounds = "in one round" if report.rounds == 1 else f"in {report.rounds} rounds, every other one backwards"
    versions = ", ".join(dict.fromkeys(report.versions.values()))
    return _wrapped(
        "This page is written by a script; the end of it says how. "
        f"All were measured in the same run, one at a time, {rounds}, each on empty folders; "
        f"a figure is the median of the rounds. {report.date}; {report.machine}; {versions}."
    )


def middle(rounds: Rounds) -> Measured:
    """The median of each part."""
    columns = zip(*rounds.values(), strict=True)
    return Measured(*(None if None in column else median(column) for column in columns))  # type: ignore[arg-type]  # only `value` is never None


def figure(rounds: Rounds, workload: str) -> str:
    if not rounds:
        return "–"
    value, p50_s, p99_s, peak_mib = middle(rounds)
    if workload == "W5":
        return f"{value:.2f} s, {peak_mib:.0f} MiB"
    latency = "" if p50_s is None else f" (p50 {p50_s:.2f} s, p99 {p99_s:.2f} s)"
    return f"{number(value)}{latency}"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _table(report: Report) -> Iterator[str]:
    yield "| | " + " | ".join(f"{name} {unit}" for name, unit in UNITS.items()) + " |"
    yield "|---" * (len(UNITS) + 1) + "|"
    for engine in (EMBEDDED, DISTRIBUTED, *PEERS):
        cells = [_cell(report, engine, workload) for workload in UNITS]
        yield f"| {engine.title} | " + " | ".join(cells) + " |"


def _cell(report: Report, engine: Engine, workload: str) -> str:
    size = engine.sizes(report.mode)[workload]
    mark = "" if size == WHOLE[workload] else "\\*"
    shown = figure(report.figures.get((engine.name, workload), {}), workload)
    return shown if shown == "–" else shown + mark


def _gaps(report: Report) -> Iterator[str]:
    for engine in (FLOOR, EMBEDDED, DISTRIBUTED, *PEERS):
        if engine.name in report.missing:
            yield _wrapped(f"Not all was measured of {engine.title}: {report.missing[engine.name]}.")


def _smaller(report: Report) -> str:
    """What stands behind the stars."""
    told = []
    for engine in PEERS:
        sizes = engine.sizes(report.mode)
        less = [
            f"{name} {sizes[name]:,} of {whole:,}" for name, whole in WHOLE.items() if sizes[name] != whole
        ]
        if less:
            told.append(f"{engine.title}: {', '.join(less)}")
    return _wrapped("\\* With less to do, to save time: " + "; ".join(told) + ".") if told else ""


def _floor(report: Report) -> str:
    floors = (
        (FLOOR, "rows", "rows/s in SQLite, `synchronous=FULL`, one a commit"),
        (DISTRIBUTED, "rows", "rows/s in PostgreSQL, one client, one a commit"),
        (FLOOR, "W4", "pages/s of W4 by asyncio and aiohttp, nothing kept"),
    )
    told = [
        f"{number(middle(rounds).value)} {words}"
        for engine, workload, words in floors
        if (rounds := report.figures.get((engine.name, workload)))
    ]
    return _wrapped("The floor in the same run, with no engine: " + "; ".join(told) + ".") if told else ""


def _ratios(report: Report, ours: Engine) -> Iterator[str]:
    workloads = [name for name in UNITS if name in ours.workloads]
    yield f"| {ours.title} to | " + " | ".join(workloads) + " |"
    yield "|---" * (len(workloads) + 1) + "|"
    for peer in PEERS:
        cells = [
            ratio(
                report.figures.get((ours.name, workload), {}),
                report.figures.get((peer.name, workload), {}),
                upside_down=workload == "W5",
            )
            for workload in workloads
        ]
        yield f"| {peer.title} | " + " | ".join(cells) + " |"


def ratio(ours: Rounds, theirs: Rounds, *, upside_down: bool = False) -> str:
    """Round by round, since a machine is not the same in all of them."""
    each = [ours[turn].value / theirs[turn].value for turn in ours if turn in theirs]
    if not each:
        return "–"
    if upside_down:
        each = [1 / value for value in each]
    spread = f" ({_times(min(each))}–{_times(max(each))})" if len(each) > 1 else ""
    return f"**{_times(median(each))}**{spread}"


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"
