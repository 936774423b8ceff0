"""What a task, a step or a playbook gives back, by the names that templates read (D21, D53)."""

from __future__ import annotations

from typing import Any, TypeAlias

JSON: TypeAlias = Any  # None, bool, int, float, str, list or dict with str keys

OUTPUT_FIELDS = (
    "status",
    "data",
    "ref",
    "error",
    "meta",
)  # and the tool's own part: output.http, output.pg, …
ERROR_FIELDS = ("kind", "retryable", "message", "details")
META_FIELDS = ("attempt", "duration_ms", "ts", "count", "succeeded", "failed")
REF_FIELDS = ("type", "locator", "auth_reference", "meta")
