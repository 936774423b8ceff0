"""`noetl up`: the whole house in the foreground, told in lines, until someone presses Ctrl-C."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import NamedTuple

from noetl.cli.answering import Voice
from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_line
from noetl.cli.exits import OK
from noetl.cli.interrupts import Interrupted, Interrupts
from noetl.cli.times import duration
from noetl.clock import SystemClock
from noetl.output import JSON
from noetl.runtime.devcluster.cluster import DevCluster, DevClusterOptions, DevClusterStatus
from noetl.views.styled_text import Styled

NAME_COLUMNS = 12


class UpAsked(NamedTuple):
    """The arguments of `noetl up`."""

    folder: str | None
    port: int
    workers: int
    slots: int
    form: FormatChoice


def run_up(asked: UpAsked, voice: Voice) -> int:
    return asyncio.run(_up(asked, voice))


async def _up(asked: UpAsked, voice: Voice) -> int:
    folder = Path(asked.folder) if asked.folder is not None else None
    clock = SystemClock()
    trial = DevCluster(
        DevClusterOptions(folder, asked.port, asked.workers, asked.slots),
        clock,
        lambda told: _tell(voice, told),
    )
    _say(voice, Styled("noetl up", "strong"), f"  in {trial.path}")
    begun = clock.monotonic()
    interrupts = Interrupts(lambda: _say(voice, "stopping; once more to hurry"))
    with interrupts:
        try:
            state = await interrupts.unless(trial.start())
            _welcome(voice, state, clock.monotonic() - begun)
            await interrupts.unless(trial.follow())
        except Interrupted:
            pass
        finally:
            try:
                await interrupts.unless_again(trial.stop())
            except Interrupted:
                await trial.stop(at_once=True)
    _say(voice, "all stopped; `noetl up` on the same folder goes on with what is open")
    return OK


def _say(voice: Voice, *pieces: Styled | str) -> None:
    """At once: whoever reads it through a pipe waits for it."""
    voice.screen.line(*pieces)
    voice.screen.stream.flush()


def _tell(voice: Voice, told: DevClusterStatus) -> None:
    took = f"  {duration(told.seconds)}" if told.seconds is not None else ""
    first, *more = told.words.split("\n")
    name = Styled(f"  {told.name:<{NAME_COLUMNS}}", "error" if told.is_wrong else "name")
    _say(voice, name, first, Styled(took, "faint"))
    for line in more:
        _say(voice, Styled(f"  {line}", "faint"))


def _welcome(voice: Voice, state: dict[str, JSON], seconds: float) -> None:
    url, token = str(state["url"]), str(state["token_file"])
    for line in (
        "",
        f"ready after {duration(seconds)}: {url}",
        f"  noetl context set up {url} --token-file {token}",
        "  noetl context use up",
        "  noetl init hello.yaml; noetl run hello.yaml",
        f"one more worker: set -a; . {state['environment_file']}; noetl worker --pool default",
        "Ctrl-C stops all of it; what is open goes on with the next `noetl up`",
    ):
        _say(voice, line)
    if voice.json:
        sys.stdout.write(as_line(state))
        sys.stdout.flush()
