"""`noetl lsp`: the language server for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from noetl.cli.execute import OK, Reporter
from noetl.cli.options import Db, Server, app, finish
from noetl.errors import NoetlError, install_hint
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.editor.history import NewestExecution
    from noetl.output import JSON
    from noetl.session.connect import Target
    from noetl.session.execution import Execution

FACTS_MAX: Final = 20_000  # a longer log is not read for an editor
ANSWER_S: Final = 2.0  # an editor does not wait longer for a database or a server


@app.command()
def lsp(db: Db = None, server: Server = None) -> None:
    """Serve an editor over standard input and output, with the Language Server Protocol.

    Editors start it themselves: problems with fixes, completion, documentation, definitions, renaming, layout. The
    last values and statuses come from the newest execution in the database, or on the server.

    \b
    Examples:
      noetl lsp
      noetl lsp --db orders.db
      noetl lsp 2> lsp.log
    """
    finish("auto", lambda _reporter: serve_editor(_reporter, db, server))


def serve_editor(_: Reporter, db: str | None = None, server: str | None = None) -> int:
    try:
        from noetl.lsp.server import serve
    except ImportError as error:
        raise UsageError(f"the language server needs pygls: {install_hint('lsp')}") from error
    from noetl import __version__
    from noetl.cli.checker import installed_kinds
    from noetl.session.connect import resolve

    serve(installed_kinds(), __version__, SessionHistory(resolve(db, server)))
    return OK


class SessionHistory:
    """The executions of a database file or a server, for an editor. What cannot be read is not shown."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: tuple[str, int, NewestExecution] | None = None  # the id and the last fact, and what they say

    async def newest(self, path: str) -> NewestExecution | None:
        import asyncio

        from noetl.session.connect import open_session

        if not self._target.exists:
            return None
        try:
            async with asyncio.timeout(ANSWER_S), open_session(self._target) as session:
                async for head in session.executions(path=path, roots=True, limit=1):
                    if self._known is None or self._known[:2] != (head.execution_id, head.seq):
                        execution = await session.execution(head.execution_id)
                        self._known = (head.execution_id, head.seq, await _last(execution, head.seq, head.standing))
                    return self._known[2]
        except (NoetlError, OSError, TimeoutError):
            return None
        return None

    async def output(self, execution_id: str, step: str) -> JSON:
        import asyncio

        from noetl.session.connect import open_session

        try:
            async with asyncio.timeout(ANSWER_S), open_session(self._target) as session:
                return await (await session.execution(execution_id)).output(step)
        except (NoetlError, OSError, TimeoutError) as error:
            return f"not available: {error}"


async def _last(execution: Execution, seq: int, status: str) -> NewestExecution:
    from noetl.editor.history import NewestExecution, StepStatus

    if seq > FACTS_MAX:
        return NewestExecution(execution.id, status, {}, {}, {})
    state = await execution.state()
    shown = await execution.show()
    steps = {each.step: StepStatus(each.status, each.duration_s) for each in shown.steps if "/" not in each.id}
    return NewestExecution(execution.id, status, state.workload, state.ctx, steps)
