"""`noetl up` in the foreground: its processes and their state, one line each, until Ctrl-C."""

from __future__ import annotations

import asyncio
import sys

from noetl.cli.execute import OK, Reporter
from noetl.cli.interrupts import Interrupted, Interrupts
from noetl.cli.output.json import as_line
from noetl.cli.output.text import duration
from noetl.clock import SystemClock
from noetl.output import JSON
from noetl.runtime.devcluster.cluster import DevCluster, DevClusterOptions, DevClusterStatus
from noetl.views.styled_text import Styled

NAME_COLUMNS = 12


def run_cluster(reporter: Reporter, options: DevClusterOptions) -> int:
    return asyncio.run(_up(reporter, options))


async def _up(reporter: Reporter, options: DevClusterOptions) -> int:
    clock = SystemClock()
    cluster = DevCluster(options, clock, lambda status: _print_status(reporter, status))
    _print(reporter, Styled("noetl up", "strong"), f"  in {cluster.path}")
    begun = clock.monotonic()
    interrupts = Interrupts(lambda: _print(reporter, "stopping; press Ctrl-C again to stop at once"))
    with interrupts:
        try:
            state = await interrupts.unless(cluster.start())
            _print_ready(reporter, state, clock.monotonic() - begun)
            await interrupts.unless(cluster.follow())
        except Interrupted:
            pass
        finally:
            try:
                await interrupts.unless_again(cluster.stop())
            except Interrupted:
                await cluster.stop(at_once=True)
    _print(reporter, "all stopped; `noetl up` on the same folder continues open executions")
    return OK


def _print(reporter: Reporter, *pieces: Styled | str) -> None:
    """Flushed, because a program may wait for the line."""
    reporter.screen.line(*pieces)
    reporter.screen.stream.flush()


def _print_status(reporter: Reporter, status: DevClusterStatus) -> None:
    took = f"  {duration(status.seconds)}" if status.seconds is not None else ""
    first, *more = status.words.split("\n")
    name = Styled(f"  {status.name:<{NAME_COLUMNS}}", "error" if status.is_wrong else "name")
    _print(reporter, name, first, Styled(took, "faint"))
    for line in more:
        _print(reporter, Styled(f"  {line}", "faint"))


def _print_ready(reporter: Reporter, state: dict[str, JSON], seconds: float) -> None:
    url, token = str(state["url"]), str(state["token_file"])
    for line in (
        "",
        f"ready after {duration(seconds)}: {url}",
        f"  noetl context set up {url} --token-file {token}",
        "  noetl context use up",
        "  noetl init hello.yaml; noetl run hello.yaml",
        f"one more worker: set -a; . {state['environment_file']}; noetl worker --pool default",
        "Ctrl-C stops everything; the next `noetl up` continues open executions",
    ):
        _print(reporter, line)
    if reporter.json:
        sys.stdout.write(as_line(state))
        sys.stdout.flush()
