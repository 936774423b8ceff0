"""`noetl explain ID STEP`: why a step ran, waited or did not run, with the guards and what they read."""

from __future__ import annotations

import asyncio
import sys
from typing import NamedTuple

from noetl.cli.answering import Voice, answered
from noetl.cli.choices import FormatChoice
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK, Usage
from noetl.cli.failing import refuse_what_never_began
from noetl.cli.loading import installed
from noetl.cli.looking import Shelf, log_of, opened, screen_for
from noetl.control.playbooks import Playbooks
from noetl.net.program import Program
from noetl.views.explain.why import Why, why
from noetl.views.explain.why_text import why_lines
from noetl.views.log import readable
from noetl.views.styled_text import Styled


class ReasonsAsked(NamedTuple):
    """The arguments of `noetl explain ID STEP`."""

    given: str  # an id, its beginning, or `last`
    step: str | None
    db: str | None = None
    form: FormatChoice = "auto"


def run_reasons(asked: ReasonsAsked, *, drawn: bool) -> int:
    """`drawn`: options were given that only a playbook has."""

    def work(_voice: Voice) -> int:
        if drawn:
            raise Usage("--graph, --task and --output are for playbooks, and this is an execution")
        return run_explain_execution(*asked)

    return answered(asked.form, work)


def run_explain_execution(given: str, step: str | None, db: str | None, form: FormatChoice) -> int:
    with opened(db) as disk:
        found = asyncio.run(_why(disk, given, step))
    if form == "json":
        sys.stdout.write(as_document(found))
        return OK
    screen = screen_for(form)
    for number, line in enumerate(why_lines(found)):
        indented = line.startswith(" ")
        screen.line(Styled(line, "" if indented else "strong" if number == 0 else "name"))
    return OK


async def _why(disk: Shelf, given: str, step: str | None) -> Why:
    log = await log_of(disk, given)
    await refuse_what_never_began(disk, log.id)
    program = await Playbooks(disk.catalog, installed()).by_digest(log.execution.digest)
    if step is None or (step not in program.steps and step not in program.blocks):
        what = "name a step" if step is None else f'the playbook has no step "{step}"'
        raise Usage(f"{what}: there are {_names(program)}")
    with readable(log.id):
        return why(program, log.id, log.events(), step)


def _names(program: Program) -> str:
    return ", ".join((*program.steps, *program.blocks))
