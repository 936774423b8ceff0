"""What a task, a step or a playbook gives back: an `Output` with a value, a Ref, or a `Failure`."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

JSON: TypeAlias = Any  # None, bool, int, float, str, list or dict with str keys

OUTPUT_FIELDS = ("status", "data", "ref", "error", "meta")  # and the tool's own part: output.http, …
ERROR_FIELDS = ("kind", "retryable", "message", "details")
META_FIELDS = ("attempt", "duration_ms", "ts", "count", "succeeded", "failed")
REF_FIELDS = ("type", "locator", "auth_reference", "meta")


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why something did not work, in a shape that rules can test."""

    kind: str  # "http", "timeout", "template", …
    message: str
    retryable: bool = False
    details: dict[str, JSON] = {}

    def view(self) -> dict[str, JSON]:
        """As templates read it: every part is there."""
        parts = {"kind": self.kind, "message": self.message, "retryable": self.retryable}
        return {**parts, "details": self.details}


class Output(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one final result of a task, a step or a playbook."""

    status: Literal["ok", "error"] = "ok"
    data: JSON = None
    ref: dict[str, JSON] | None = None  # a Ref: where the data lies, when it is too large to stand here
    error: Failure | None = None
    meta: dict[str, JSON] = {}
    own: dict[str, JSON] = {}  # the tool's own part: {"http": {"status": 429}} → output.http.status

    def view(self) -> dict[str, JSON]:
        """As templates read it. What is not there is undefined: `ref`, and `error` when all is well."""
        seen: dict[str, JSON] = {"status": self.status, "data": self.data, "meta": self.meta, **self.own}
        if self.ref is not None:
            seen["ref"] = self.ref
        if self.error is not None:
            seen["error"] = self.error.view()
        return seen


def failed(kind: str, message: str, *, retryable: bool = False) -> Output:
    """An output that is nothing but a failure."""
    return Output(status="error", error=Failure(kind=kind, message=message, retryable=retryable))
