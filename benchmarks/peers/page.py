"""Renders figures as docs/explanation/benchmarks.md. It only formats text and measures nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from textwrap import fill
from typing import NamedTuple

from benchmarks.goals import OwnFigure, goal_of, reached
from benchmarks.peers.engines import (
    DISTRIBUTED,
    EMBEDDED,
    FLOOR,
    OURS,
    PEER_ROUNDS,
    PEERS,
    RESTATE,
    SERVER,
    WHOLE,
    Engine,
)
from benchmarks.peers.orders import Measured

Rounds = Mapping[int, Measured]  # by the number of the round, without failed rounds
Figures = Mapping[tuple[str, str], Rounds]  # by engine and workload

UNITS = {
    "W1": "steps/s",
    "W2": "items/s",
    "W3": "executions/s",
    "W4": "pages/s",
    "W5": "cold start",
    "W6": "time (overhead of a task)",
}
TIMES = ("W5", "W6")  # less is better; the others are rates
WORKLOADS = """\
| workload | description |
|---|---|
| W1 | one execution of 1,000 sequential steps |
| W2 | one execution, a loop over 10,000 items, 100 in flight |
| W3 | 1,000 executions of 3 steps each, started together; p50 and p99 of the time from the common start to each end |
| W4 | 50 endpoints × 20 pages of 100 JSON records, 10 endpoints in flight, every page a durable step |
| W5 | one execution of one step, from the shell to exit; peak memory of the largest process |
| W6 | 100 executions started together, each of 100 sequential requests of 50 ms, each a durable step; total time |

A task does nothing and returns `{"n": 1}`; in W4 it fetches one page and decodes it, and in W6 it fetches
`{"n": 1}`. All systems use the same page server, which runs in a separate process and delays each response by
1 ms, in W6 by 50 ms. "Durable" means that the result of a step is synced to disk before the next step starts.

W6 takes at least 5 s, the time of 100 requests, at a rate of 2,000 requests/s. Beside the total is the overhead of
a request: the time of an execution from the common start to its end, divided by 100, less 50 ms; the median of the
executions.
"""
GOALS: Mapping[str, Mapping[str, float]] = {  # by engine; W5 is the most, the others are the least
    EMBEDDED.name: {"W1": 3_500, "W2": 22_000, "W3": 2_800, "W4": 3_000, "W5": 0.20},
    **{engine.name: {"W1": 1_100, "W2": 10_000, "W3": 900, "W4": 1_600} for engine in (SERVER, DISTRIBUTED)},
}
RESTATE_RATIO = 1.5  # the goal of W1 to W4, distributed
PROFILES = {
    (EMBEDDED.name, "W1"): "nearly half of a step is the commit with its sync, the rest many small functions",
    (EMBEDDED.name, "W2"): "half of an iteration is the worker, half control; no function has a tenth",
    (EMBEDDED.name, "W3"): "commits are shared: the CPU time of a start and three steps, in many small functions",
    (EMBEDDED.name, "W4"): "a quarter is aiohttp, a seventh the commit with the page in it, a tenth JSON",
    (EMBEDDED.name, "W5"): "two thirds are the import of modules",
    (SERVER.name, "W1"): "half of a step is the commit in PostgreSQL",
    (SERVER.name, "W2"): "the server uses one core: half of it is the worker, half control",
    (SERVER.name, "W3"): "the server uses one core: 43 % HTTP, 24 % commits of reports, 8 % the response document",
    (SERVER.name, "W4"): "the server uses one core: a quarter is aiohttp, the rest the pipeline and commits",
    (DISTRIBUTED.name, "W1"): "46 % of the server's Python time is writing to NATS, 18 % the commit",
    (DISTRIBUTED.name, "W2"): "47 % of the CPU time is the server, 36 % are the workers",
    (DISTRIBUTED.name, "W3"): "a quarter of the server's time is HTTP, a seventh PostgreSQL, a tenth writing to NATS",
    (DISTRIBUTED.name, "W4"): "46 % of the CPU time are the workers, 29 % the server, 14 % PostgreSQL, 10 % NATS",
}
# Beginnings of the names of NoETL's own figures that the page has, if they have a goal
OWN_SHOWN = (
    "check of",
    "webhooks:",
    "large:",
    "large on PostgreSQL:",
    "neighbours:",
    "printed:",
    "scale-out:",
    "long loop:",
)
# … and parts of the names of those that it has without one
OWN_WITHOUT_GOAL = ("W7", "of the bound by slots", "items, CPU time")
OWN_PROFILES = {  # by the beginning of the name
    "check of 1,000 steps, full": "a third is reading YAML, a third templates, the rest spread over the checks",
    "long loop: 1,000,000 items, rate": "7 of 21 µs more for an item are its read from the store, the rest is spread",
    "neighbours: beside 100 MB of results over HTTP": "commits wait for the disk with the results, the loop for a core",
    "neighbours: beside 100 MB of results of python": "four processes build the results: two cores are busy",
    "neighbours: beside": "some milliseconds: turns of the event loop of the others, before each of about ten turns",
}
CLAIMS = """\
## Limits of this comparison

- The tasks do nothing, or fetch a page in W4 and W6, so mostly the overhead of each system is measured. If tasks
  take seconds, all of these systems are fast enough.
- NoETL's task is `noop`, which runs in the process of the worker, as the functions of the other systems
  run in theirs. Python code in a playbook runs in a child process, which adds a fraction of a millisecond per
  call: see `python: a warm call` of `make bench`.
- One machine and one disk were used, and a sync to that disk limits W1. On the same machine with a busy disk,
  when SQLite reached about 350 rows/s with one row per commit, Restate was faster in W1 (474 to 204 steps/s,
  two rounds) and slower in W2 to W5.
- No system was tuned: all use their default settings, except where stated above.
- Only Python is measured. Restate has SDKs for other languages, and its server is designed for many machines.
- Hatchet, Kestra and Windmill are missing, because the machine of these measurements installs packages only from
  PyPI, npm and Debian. A search by name found only clients there: on PyPI `hatchet-sdk`, `kestra` and `wmill`, on
  npm `@hatchet-dev/typescript-sdk`, `@kestra-io/kestra-sdk`, `windmill-client` and `windmill-cli`, in Debian
  nothing. Their servers are container images or downloads from other sites, also the engine that `hatchet-sdk`
  can start, which it downloads from GitHub. Other registries and builds from source were not tried.
- Figures differ between machines, and between days on one machine. Compare the ratios.

## How to reproduce it

```shell
make bench PEERS=1        # NoETL's own figures, then this page with all workloads in full size
make bench PEERS=quick    # the same, with smaller workloads for slow systems
.venv/bin/python -m benchmarks.against --quick    # only the comparison; other figures are the last ones of `make bench`
.venv/bin/python -m benchmarks.against --trial    # a functional test; its figures are meaningless
```

The other systems are installed into `.bench/`, each into a separate environment with all versions pinned
(`benchmarks/peers/*.txt`). `.bench/figures.json` has the figures of each round, `.bench/logs/` the logs.
"""


class Report(NamedTuple):
    """One whole run."""

    date: str
    machine: str
    mode: str  # whole, quick or trial
    rounds: int
    versions: Mapping[str, str]  # by engine
    figures: Figures
    missing: Mapping[str, str]  # engine → the reason for missing figures
    own: Mapping[str, OwnFigure] = {}  # of NoETL alone, by name


def render(report: Report) -> str:
    engines = (*OURS, *PEERS)
    parts = [
        "# Benchmarks against other systems",
        _how(report),
        WORKLOADS.strip(),
        "## Figures",
        "\n".join(_table(report)),
        *_gaps(report),
        _smaller(report),
        _floor(report),
        "## Goals",
        "\n".join(_goals(report)),
        _wrapped(
            "The goals were set for a machine with a baseline of about 7,000 rows/s in SQLite, so compare them with "
            "the baseline above. [Performance](performance.md) shows where the time goes."
        ),
        *_own(report),
        "## Ratios",
        _wrapped(
            "The median of the ratios of all rounds, with the lowest and the highest ratio in parentheses. A "
            "ratio above 1 means that NoETL is faster. For W5 and W6 it is the time of the other system divided by "
            "NoETL's. The ratio of W6 to a system with fewer executions is too low, because they take less time."
        ),
        "\n".join(_ratios(report, EMBEDDED)),
        "\n".join(_ratios(report, SERVER)),
        "\n".join(_ratios(report, DISTRIBUTED)),
        "## Set-up of each system",
        "\n".join(f"- {engine.title}: {engine.notes}".replace("\n", "\n  ") for engine in engines),
        CLAIMS.strip(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _wrapped(words: str) -> str:
    return fill(words, 110, break_long_words=False, break_on_hyphens=False)


def _how(report: Report) -> str:
    rounds = "in one round" if report.rounds == 1 else f"in {report.rounds} rounds in alternating order"
    if report.rounds > PEER_ROUNDS:
        rounds += f" (other systems than NoETL in the first {PEER_ROUNDS})"
    versions = ", ".join(dict.fromkeys(report.versions.values()))
    return _wrapped(
        "A script writes this page; the last section shows how to run it. "
        f"All systems were measured in the same run, one at a time, {rounds}, each with empty directories; "
        f"a figure is the median of the rounds. {report.date}; {report.machine}; {versions}."
    )


def middle(rounds: Rounds) -> Measured:
    """The median of each part."""
    columns = zip(*rounds.values(), strict=True)
    return Measured(*(None if None in column else median(column) for column in columns))  # type: ignore[arg-type]  # only `value` is never None


def figure(rounds: Rounds, workload: str) -> str:
    if not rounds:
        return "–"
    value, p50_s, p99_s, peak_mib, overhead_ms = middle(rounds)
    if workload == "W5":
        return f"{value:.2f} s, {peak_mib:.0f} MiB"
    if workload == "W6":
        return f"{value:.1f} s ({overhead_ms:,.1f} ms)"
    latency = "" if p50_s is None else f" (p50 {p50_s:.2f} s, p99 {p99_s:.2f} s)"
    return f"{number(value)}{latency}"


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _table(report: Report) -> Iterator[str]:
    yield "| | " + " | ".join(f"{name} {unit}" for name, unit in UNITS.items()) + " |"
    yield "|---" * (len(UNITS) + 1) + "|"
    for engine in (*OURS, *PEERS):
        cells = [_cell(report, engine, workload) for workload in UNITS]
        yield f"| {engine.title} | " + " | ".join(cells) + " |"


def _cell(report: Report, engine: Engine, workload: str) -> str:
    size = engine.sizes(report.mode)[workload]
    mark = "" if size == WHOLE[workload] else "\\*"
    shown = figure(report.figures.get((engine.name, workload), {}), workload)
    return shown if shown == "–" else shown + mark


def _gaps(report: Report) -> Iterator[str]:
    for engine in (FLOOR, *OURS, *PEERS):
        if engine.name in report.missing:
            yield _wrapped(f"The figures of {engine.title} are incomplete: {report.missing[engine.name]}.")
    for workload in UNITS:
        if not any(report.figures.get((engine.name, workload)) for engine in (*OURS, *PEERS)):
            yield f"{workload} has no figures, because this run did not measure it: a new run is needed."


def _smaller(report: Report) -> str:
    """The footnote on smaller workloads."""
    told = []
    for engine in PEERS:
        sizes = engine.sizes(report.mode)
        less = [f"{name} {sizes[name]:,} of {whole:,}" for name, whole in WHOLE.items() if sizes[name] != whole]
        if less:
            told.append(f"{engine.title}: {', '.join(less)}")
    reason = "\\* Smaller workloads, to save time or because larger ones end with an error: "
    return _wrapped(reason + "; ".join(told) + ".") if told else ""


def _floor(report: Report) -> str:
    floors = (
        (FLOOR, "rows", "rows/s in SQLite, `synchronous=FULL`, one row per commit"),
        (DISTRIBUTED, "rows", "rows/s in PostgreSQL, one client, one row per commit"),
        (FLOOR, "W4", "pages/s of W4 with asyncio and aiohttp, without storing anything"),
        (FLOOR, "W6", "s for W6 in the same way"),
    )
    told = [
        f"{number(middle(rounds).value)} {words}"
        for engine, workload, words in floors
        if (rounds := report.figures.get((engine.name, workload)))
    ]
    if not told:
        return ""
    return _wrapped("The baseline in the same run, without an engine: " + "; ".join(told) + ".")


def _goals(report: Report) -> Iterator[str]:
    """Goals and figures. A goal that is missed says what the profile shows."""
    yield "| | goal | figure | reached | what the profile shows |"
    yield "|---|---|---|---|---|"
    for engine in OURS:
        for workload, goal in GOALS[engine.name].items():
            rounds = report.figures.get((engine.name, workload), {})
            if not rounds:
                continue
            value = middle(rounds).value
            reached = goal / value if workload == "W5" else value / goal
            limit = f"{goal:.2f} s" if workload == "W5" else f"{number(goal)} {UNITS[workload]}"
            shown = f"{value:.2f} s" if workload == "W5" else number(value)
            profile = "" if reached >= 1 else PROFILES[engine.name, workload]
            yield f"| {engine.title} {workload} | {limit} | {shown} | {_percent(reached)} | {profile} |"
    for engine in (SERVER, DISTRIBUTED):
        for workload in GOALS[engine.name]:
            ours, theirs = (report.figures.get((name, workload), {}) for name in (engine.name, RESTATE.name))
            if each := _each_ratio(ours, theirs):
                part = median(each) / RESTATE_RATIO
                profile = "" if part >= 1 else PROFILES[engine.name, workload]
                name = f"{engine.title} {workload} to Restate"
                yield f"| {name} | {RESTATE_RATIO} | {median(each):.2f} | {_percent(part)} | {profile} |"


def _own(report: Report) -> Iterator[str]:
    """What `python -m benchmarks` measures without other systems.

    Raises ValueError when a goal is missed and nothing says what the profile shows.
    """
    shown = {
        name: figure
        for name, figure in report.own.items()
        if (name.startswith(OWN_SHOWN) and goal_of(name)) or any(part in name for part in OWN_WITHOUT_GOAL)
    }
    if not shown:
        return
    dates = sorted({figure.date for figure in shown.values()})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    yield "## More figures of NoETL"
    yield _wrapped(f"Measured by `python -m benchmarks` on the same machine ({days}), without other systems.")
    parts = {name: reached(name, figure.value) for name, figure in shown.items()}
    missed = {name: _profile(name) for name, part in parts.items() if part is not None and part < 1}
    if unknown := [name for name, profile in missed.items() if not profile]:
        raise ValueError(
            f"missed goals without a text in OWN_PROFILES of benchmarks/peers/page.py: {'; '.join(unknown)}. "
            "Profile them, add what you see, and run `python -m benchmarks.against --page`"
        )
    lines = ["| | goal | figure | reached | what the profile shows |", "|---|---|---|---|---|"]
    for name, (value, unit, _) in shown.items():
        part, profile = parts[name], missed.get(name, "")
        share = "" if part is None else _percent(part) if part < 1 else "yes"
        lines.append(f"| {name} | {goal_of(name)} | {value:,.4g} {unit} | {share} | {profile} |")
    yield "\n".join(lines)


def _profile(name: str) -> str:
    return next((words for beginning, words in OWN_PROFILES.items() if name.startswith(beginning)), "")


def _percent(part: float) -> str:
    """Rounded down, so that 100 % is a goal reached."""
    return f"{int(part * 100)} %"


def _ratios(report: Report, ours: Engine) -> Iterator[str]:
    workloads = [name for name in UNITS if name in ours.workloads]
    yield f"| {ours.title} to | " + " | ".join(workloads) + " |"
    yield "|---" * (len(workloads) + 1) + "|"
    for peer in PEERS:
        cells = [
            ratio(
                report.figures.get((ours.name, workload), {}),
                report.figures.get((peer.name, workload), {}),
                upside_down=workload in TIMES,
            )
            for workload in workloads
        ]
        yield f"| {peer.title} | " + " | ".join(cells) + " |"


def ratio(ours: Rounds, theirs: Rounds, *, upside_down: bool = False) -> str:
    each = _each_ratio(ours, theirs)
    if not each:
        return "–"
    if upside_down:
        each = [1 / value for value in each]
    spread = f" ({_times(min(each))}–{_times(max(each))})" if len(each) > 1 else ""
    return f"**{_times(median(each))}**{spread}"


def _each_ratio(ours: Rounds, theirs: Rounds) -> list[float]:
    """The ratio in each round, because the speed of the machine varies."""
    return [ours[turn].value / theirs[turn].value for turn in ours if turn in theirs]


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.1f}"
