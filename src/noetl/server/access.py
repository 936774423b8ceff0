"""Authorization: the scope that a route needs, and how the paths and pools of a role limit it.

Every route declares both in its options. Without a scope it accepts no caller, without a limit no limited caller.
The table of roles in SECURITY.md is generated from these options. An object outside of the caller's paths gives 404;
403 means that the caller sees the object, or would create it.
"""

from __future__ import annotations

from typing import Any, Final

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from noetl.engine.scopes import named_results
from noetl.errors import NotFound, PlaybookError, Unavailable
from noetl.net.program import Program
from noetl.output import JSON
from noetl.playbook.model import Task
from noetl.server.auth import CALLER, CHALLENGE, PUBLIC, SCOPE, Caller
from noetl.server.errors import ApiError
from noetl.server.log_readers import checked_id
from noetl.server.services import Services
from noetl.slices import in_slices

CONTEXT: Final = "context"  # the key of the AppContext in the state of the application
LIMIT: Final = "limit"  # the key of the following in the options of a route
UNLIMITED: Final = "nothing"  # the route shows and changes nothing that belongs to a path or a pool
BY_EXECUTION: Final = "execution"  # the path of the execution that the URL names; commands also need its pools
BY_NAME: Final = "name"  # the route checks the path, digest or name in the request
BY_PLAYBOOK: Final = "playbook"  # the same, and the pools of the playbook
FILTERED: Final = "filtered"  # the response contains only objects within the limits
EVERYWHERE: Final = "everywhere"  # only a caller without limits: the response cannot be divided by paths
LIMITS: Final = {
    UNLIMITED: "shows nothing that belongs to a path",
    BY_EXECUTION: "the path of the execution; commands also need all pools of its playbook",
    BY_NAME: "the path, digest or name in the request",
    BY_PLAYBOOK: "the path or digest of the playbook in the request, and all pools of the playbook",
    FILTERED: "lists only what is within the limits",
    EVERYWHERE: "refused for a role with limits",
}


class Hidden(NotFound):
    """The object exists, outside of the caller's paths. The response is that to an unknown object."""


async def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Runs before every route. Raises ApiError, or the error that occurred when the token was looked up."""
    scope = handler.opt.get(SCOPE)
    if scope == PUBLIC or connection.scope.get("method") == "OPTIONS":
        return
    caller = connection.scope["state"].get(CALLER)
    if isinstance(caller, ApiError | Unavailable):
        raise caller
    if caller is None:
        detail = "this request needs a token: `noetl token create` creates one"
        raise ApiError(401, "no-token", detail, CHALLENGE)
    assert isinstance(caller, Caller)
    if scope is None or not caller.may(scope):
        raise low_scope(caller, scope)
    connection.app.state[CONTEXT].audit.sign_in(caller)
    if caller.roles:
        await _check_limit(connection, handler.opt.get(LIMIT), caller, scope)


async def _check_limit(connection: ASGIConnection[Any, Any, Any, Any], limit: Any, caller: Caller, scope: str) -> None:
    if limit == BY_EXECUTION:
        services: Services = connection.app.state[CONTEXT].services
        await check_execution(services, caller, scope, connection.path_params["execution_id"])
    elif limit not in (UNLIMITED, BY_NAME, BY_PLAYBOOK, FILTERED) and not caller.may_everywhere(scope):
        raise ApiError(403, "limited-role", f"{caller.title} is limited to paths or pools: {LIMITS[EVERYWHERE]}")


async def check_execution(services: Services, caller: Caller, scope: str, execution_id: str) -> None:
    head = await services.listing.head(checked_id(execution_id))
    if not caller.may("read", head.path):
        raise Hidden(f"no execution {execution_id}")
    if not caller.may(scope, head.path):
        raise low_scope(caller, scope, head.path)
    if scope != "read" and caller.pools(scope, head.path) is not None:
        await check_digest(services, caller, head.digest, head.path)


async def check_refs(services: Services, caller: Caller, *workloads: dict[str, JSON]) -> None:
    """An execution reads the results that its request and its playbook name, so a caller names those that it sees.

    Raises NotFound, with the words of an unknown execution.
    """
    if caller.paths("read") is None:
        return
    for execution_id in sorted(set((await in_slices(named_results([*workloads]))).values())):
        head = await services.listing.head(checked_id(execution_id))
        check_readable(caller, head.path, f"no execution {execution_id}")


def low_scope(caller: Caller, scope: str | None, path: str | None = None, reason: str = "") -> ApiError:
    where = f' for "{path}"' if path is not None else ""
    return ApiError(403, "low-scope", f'{caller.title} lacks the scope "{scope}"{where}{reason}')


def outside(caller: Caller, what: str) -> ApiError:
    return ApiError(403, "outside-limits", f"the roles of {caller.title} do not permit {what}")


def check_readable(caller: Caller, path: str, missing: str) -> None:
    """Raises NotFound with the words of an unknown object."""
    if not caller.may("read", path):
        raise Hidden(missing)


def check_playbook(caller: Caller, scope: str, path: str) -> None:
    """Raises NotFound, or ApiError when the caller may only read it."""
    check_readable(caller, path, f'no playbook is registered under "{path}"')
    if not caller.may(scope, path):
        raise low_scope(caller, scope, path)


async def check_digest(services: Services, caller: Caller, digest: str, path: str) -> None:
    """Whether a caller may use all pools of a registered playbook. Raises ApiError."""
    if caller.pools("run", path) is None:
        return
    try:
        program = await services.playbooks.by_digest(digest)
    except (NotFound, PlaybookError):
        return  # nothing of it can run
    check_pools(caller, "run", program)


async def check_current(services: Services, caller: Caller, path: str) -> None:
    """As `check_digest`, for the current version. Raises ApiError."""
    if caller.pools("run", path) is None:
        return
    try:
        digest = (await services.catalog.newest(path)).digest
    except NotFound:
        return  # the same
    await check_digest(services, caller, digest, path)


def check_pools(caller: Caller, scope: str, program: Program) -> None:
    pools = caller.pools(scope, program.playbook.path)
    for pipeline in (*(step.pipeline for step in program.steps.values()), *program.blocks.values()):
        if pools is not None and pipeline.pool not in pools:
            raise outside(caller, f'the pool "{pipeline.pool}", which the step "{pipeline.name}" uses')


async def check_written(services: Services, caller: Caller, program: Program) -> None:
    """Whether a caller may register a playbook: its path, its pools, the playbooks that it calls, and the results
    that its defaults and its triggers name.

    A call by a template could lead anywhere, so an author with limits writes literal paths. Raises ApiError, or
    NotFound with the words of an unknown execution.
    """
    playbook = program.playbook
    path = playbook.path
    if not caller.may("write", path):
        raise outside(caller, f'playbooks under "{path}"')
    check_pools(caller, "write", program)
    defaults = {} if program.inputs is None else program.inputs.defaults
    await check_refs(services, caller, playbook.workload, defaults, *(each.workload for each in playbook.triggers))
    if caller.may_everywhere("write"):
        return
    for pipeline in (*(step.pipeline for step in program.steps.values()), *program.blocks.values()):
        for task in pipeline.source_tasks:
            if task.kind == "playbook":
                _check_call(caller, task.source)


def _check_call(caller: Caller, task: Task) -> None:
    called = task.fields.get("path")
    if "document" in task.fields or not isinstance(called, str) or "{{" in called or "{%" in called:
        raise outside(caller, f'the task "{task.name}", which decides at run time what it calls: write a literal path')
    if not caller.may("run", called):
        raise outside(caller, f'a call of "{called}" in the task "{task.name}"')
