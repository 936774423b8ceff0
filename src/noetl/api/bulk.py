"""Bodies of the route that acts on many executions at once."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from noetl.api.executions import VERSION_MAX
from noetl.engine.state import Status

BULK_MAX: Final = 1_000  # executions of one request
BulkAction: TypeAlias = Literal["cancel", "retry", "delete", "label"]
BulkResult: TypeAlias = Literal["planned", "done", "unchanged", "refused"]


class ListFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The executions of a list, with the names of its query parameters. Those that fit all of these."""

    status: Status | Literal["interrupted"] | None = None  # interrupted: it has not ended, and no process runs it
    open: bool = False
    path: str | None = None
    path_prefix: str | None = None  # the beginning of the path
    version: Annotated[int, Meta(ge=1, le=VERSION_MAX)] | None = None  # needs `path`
    digest: str | None = None
    label: tuple[str, ...] = ()  # `key=value`
    since: datetime | None = None
    until: datetime | None = None
    roots: bool = False
    waiting: bool = False
    search: str | None = None


class BulkTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    execution_id: str
    seq: int | None = None  # for retry and delete: only if its log has not grown since, so that a repetition is safe


class BulkRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which executions, and what to do with them."""

    action: BulkAction
    executions: Annotated[tuple[BulkTarget, ...], Meta(max_length=BULK_MAX)] = ()
    filter: ListFilter | None = None  # instead of `executions`: those of the list, the newest at most 1,000
    dry_run: bool = False  # only the plan; nothing is changed
    reason: str = ""  # of a cancellation, for the log
    compensate: bool = False  # of a cancellation: undo completed steps, as their `compensate` says
    labels: dict[str, str | None] = {}  # of the action `label`: to add, or with null to remove


class BulkItem(Struct, frozen=True, kw_only=True):
    """What happens or has happened to one execution."""

    execution_id: str
    result: BulkResult  # unchanged: there was nothing to do; refused: `detail` says why
    detail: str = ""
    path: str = ""  # "": the execution is unknown
    status: Status | None = None  # before the action
    seq: int = 0  # of its last event before the action


class BulkResponse(Struct, frozen=True, kw_only=True):
    action: BulkAction
    items: tuple[BulkItem, ...]
    matching: int | UnsetType = UNSET  # how many executions match the filter; more than `items` if it is over the limit
