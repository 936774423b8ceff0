"""Values that outlive an execution, read when one starts, and set by people."""

from __future__ import annotations

from msgspec.structs import replace

from noetl.engine.commands import Start
from noetl.engine.saved import saved_misfit
from noetl.errors import Rejected
from noetl.net.program import Program
from noetl.output import JSON, NotJSON, clean_decoded
from noetl.ports import SavedStore


class SavedAtStart:
    """A hook of Control: the request gets the values that its playbook reads."""

    def __init__(self, saved: SavedStore) -> None:
        self._saved = saved

    async def __call__(self, execution_id: str, program: Program, start: Start) -> Start:
        del execution_id
        names = program.saved_reads
        if names is not None and not names:
            return start
        found = await self._saved.current(program.playbook.path)
        return replace(start, saved={each.key: each.value for each in found if names is None or each.key in names})


def check_saved(key: str, value: JSON) -> None:
    """Raises Rejected for a value that no playbook could have saved."""
    if not (key.isidentifier() and key.isascii()):
        raise Rejected("bad-saved", f'"{key[:40]}" cannot be a name in saved: use letters, digits and _')
    try:
        clean_decoded(value)
    except NotJSON as error:
        raise Rejected("not-json", f"saved.{key}: {error}") from error
    if failure := saved_misfit(f"saved.{key}", value):
        raise Rejected("bad-saved", failure.message)
