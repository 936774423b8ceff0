"""Errors that tools share. Each becomes an Output with an error; none reaches the worker as an exception."""

from __future__ import annotations

from typing import ClassVar

from noetl.errors import NoetlError, Unavailable, install_hint
from noetl.output import Failure, Output, failed


def allow_hint(reason: str | None) -> str:
    """After the reason why an address is refused: other special addresses cannot be allowed."""
    may_be_allowed = reason is not None and (" a private address" in reason or " a loopback address" in reason)
    return "; on a server, NOETL_ALLOW_NETWORKS can allow it" if may_be_allowed else ""


class ToolError(Exception):
    """A call that fails. The message is for the author of the playbook and contains no secret."""

    kind: ClassVar[str]  # of the failure

    def failure(self) -> Failure:
        return Failure(kind=self.kind, message=str(self))

    def output(self) -> Output:
        return failed(self.kind, str(self))


class InvalidInput(ToolError):
    """A field or option of the task has a value that the tool cannot use."""

    kind = "input"


class TooLarge(ToolError):
    """A request, a result or a number of rows is above its limit."""

    kind = "payload-too-large"


def store_failure(error: NoetlError) -> Output:
    """The result store failed. Only an unreachable store is worth a retry."""
    return failed("reference", str(error), retryable=isinstance(error, Unavailable))


def not_installed(library: str, extra: str) -> Output:
    """The library of a tool is an optional dependency, and it is missing."""
    return failed("tool", f"{library} is not installed on this worker: {install_hint(extra)}")
