"""The functions of the public Python API: run, check and connect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.session.connect import DatabaseTarget, Server, is_url, open_session, resolve
from noetl.session.errors import UsageError

if TYPE_CHECKING:
    from noetl.errors import Problem
    from noetl.output import JSON
    from noetl.secret import Secret
    from noetl.session.execution import Result
    from noetl.session.protocol import Session
    from noetl.session.sources import Dialect


def run(
    playbook: str | Path,
    *,
    workload: Mapping[str, JSON] | None = None,
    ctx: Mapping[str, JSON] | None = None,
    labels: Mapping[str, str] | None = None,
    database: str | Path | None = None,
    key: str | None = None,
    version: int | None = None,
    dialect: Dialect = "canonical",
    timeout_s: float | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Result:
    """Run a playbook in this process to its end, and return its result. Nothing is printed.

    `playbook` is a file, or the path of a registered playbook. `secrets` gives the values of its secret inputs,
    which are stored encrypted and never in the log. `ctx` gives the first values of `ctx`;
    `labels` are added to those of the playbook, and lists find executions by them.
    `database` is the file that keeps its log; default: `NOETL_DB`, else a file in your home. The same `key`
    names the same execution: a second call returns its result, and continues it if it was interrupted.

    A failed execution is a result, too; `raise_for_status` turns it into an exception.

    Raises StartRefused when the playbook has problems, TimeoutError after `timeout_s`, UsageError inside a
    running event loop: use `connect` there.

    Examples:
        >>> import noetl
        >>> result = noetl.run("orders.yaml", workload={"day": "2026-11-16"})
        >>> result.status, result.output, result.ctx, result.error
        ('ok', {'orders': 3}, {'day': '2026-11-16'}, None)
        >>> result.raise_for_status().id == result.id
        True
        >>> noetl.run("orders.yaml", workload={"day": "never"}).raise_for_status()
        Traceback (most recent call last):
        noetl.session.errors.ExecutionFailed: execution ... ended with status error: ...
    """
    _refuse_running_loop()

    async def work() -> Result:
        target = DatabaseTarget(None if database is None else str(database))
        async with open_session(target, create=True) as session:
            execution = await session.start(
                playbook, workload=workload, ctx=ctx, labels=labels, key=key, version=version, dialect=dialect,
                secrets=secrets,
            )  # fmt: skip
            return await execution.result(timeout_s)

    return asyncio.run(work())


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        "noetl.run cannot be called inside a running event loop, such as a notebook or an async service: use"
        " `async with noetl.connect() as session`, `await session.start(…)` and `await execution.result()`"
    )


def check(playbook: str | Path, *, dialect: Dialect = "canonical") -> list[Problem]:
    """All problems of a playbook file; an empty list means that there are none.

    A problem has `code`, `severity` (error, warning, info), `message`, `line`, `column` and `fix`. Only
    errors prevent a run.

    Examples:
        >>> import noetl
        >>> noetl.check("orders.yaml")
        []
        >>> [(problem.code, problem.severity, problem.line) for problem in noetl.check("broken.yaml")]
        [('unknown-step', 'error', 7)]
    """
    from noetl.session.sources import load, read_source
    from noetl.tool import Tools

    return list(load(read_source(str(playbook)), dialect, Tools.installed().kinds()).problems)


def connect(target: str | Path | None = None, *, token: str | Secret | None = None) -> Session:
    """A session on a database file or a server; use it with `async with`.

    Without `target` it is what the command line uses: `NOETL_SERVER`, `NOETL_DB`, the current context, or a
    file in your home. A `target` is a file, or the `https://…` address of a server; its `token` defaults to
    `NOETL_TOKEN`, or to that of a context with this address.

    Examples:
        >>> import asyncio, noetl
        >>> async def approve():
        ...     async with noetl.connect() as session:
        ...         execution = await session.start(
        ...             "approval.yaml", workload={"day": "2026-11-16"}, key="approval-2026-11-16"
        ...         )
        ...         async for event in execution.events(follow=True):
        ...             if event.name == "frame.parked":
        ...                 await execution.signal("approval", {"ok": True})
        ...         state = await execution.state(at=5)
        ...         result = await execution.result(timeout_s=60)
        ...         return result.status, result.output, state.seq
        >>> asyncio.run(approve())
        ('ok', {'ok': True}, 5)
        >>> async def failed():
        ...     async with noetl.connect() as session:
        ...         return [info.path async for info in session.executions(status="error", path="orders/*")]
        >>> asyncio.run(failed())
        []
    """
    if target is None:
        found = resolve()
    elif isinstance(target, str) and is_url(target):
        found = resolve(server=target)
    else:
        found = resolve(db=str(target))
    if token is not None:
        if not isinstance(found, Server):
            raise UsageError('a token is for a server: connect("https://…", token=…)')
        from noetl.secret import Secret as SecretText

        found = found._replace(token=token if isinstance(token, SecretText) else SecretText(token))
    return open_session(found._replace(option=None) if isinstance(found, Server) else found, create=True)
