"""Limits of writes: the size of values that `set` writes, and names that take a Ref (D54, D55).

The pipeline, routing, blocks and reducers all use these checks.
"""

from __future__ import annotations

import msgspec

from noetl.output import JSON, REF_FIELDS, Failure

VALUE_BYTES_MAX = 65_536  # of one value, as JSON
CTX_BYTES_MAX = 1_048_576  # of all of ctx, as JSON
REF_TYPES = frozenset({"relational", "nats", "object_store", "blob"})  # D53
_CHAR_BYTES_MAX = 6  # of one character, escaped
_REF_FIELDS = frozenset(REF_FIELDS)
_encoded = msgspec.json.Encoder().encode


def misfit(target: str, value: JSON) -> Failure | None:
    """Why the value cannot be written to the target ("ctx.rows_ref"); None: it can."""
    kind = type(value)
    if target.endswith("_ref"):
        if not is_ref(value):
            return Failure(kind="reference", message=f'"{target}" takes a Ref, by its name')
    elif kind is dict and is_ref(value):
        return Failure(kind="reference", message=f'a Ref needs a name that ends in _ref, not "{target}"')
    if kind is str and len(value) * _CHAR_BYTES_MAX < VALUE_BYTES_MAX:
        return None
    if kind in (str, list, dict) and len(_encoded(value)) > VALUE_BYTES_MAX:
        message = f'"{target}" is over {VALUE_BYTES_MAX:,} bytes: keep a reference instead'
        return Failure(kind="payload-too-large", message=message)
    return None


def ctx_misfit(ctx: dict[str, JSON]) -> Failure | None:
    """Why ctx cannot have this value; None: it can."""
    if len(_encoded(ctx)) <= CTX_BYTES_MAX:
        return None
    message = f"ctx would be over {CTX_BYTES_MAX:,} bytes in all: keep references instead"
    return Failure(kind="payload-too-large", message=message)


def is_ref(value: JSON) -> bool:
    if type(value) is not dict or "locator" not in value or not value.keys() <= _REF_FIELDS:
        return False
    kind = value.get("type")
    return type(kind) is str and kind in REF_TYPES
