"""Large documents as JSON, encoded part by part.

The encoder keeps Python's lock until it returns, so that one call for a large document stops the event loop, even from
another thread. Between two parts the event loop gets its turn.
"""

from __future__ import annotations

import msgspec

_encode = msgspec.json.Encoder().encode


def encode_parts(document: msgspec.Struct) -> bytes:
    """As `msgspec.json.encode`; the items of tuples are encoded one by one."""
    assert not document.__struct_config__.omit_defaults, "defaults are written"
    names = zip(document.__struct_encode_fields__, document.__struct_fields__, strict=True)
    fields = ((name, getattr(document, field)) for name, field in names)
    parts = [_encode(name) + b":" + _value(value) for name, value in fields if value is not msgspec.UNSET]
    return b"{" + b",".join(parts) + b"}"


def _value(value: object) -> bytes:
    if isinstance(value, tuple):
        return b"[" + b",".join([_encode(each) for each in value]) + b"]"
    if isinstance(value, msgspec.Struct) and not value.__struct_config__.omit_defaults:
        return encode_parts(value)
    return _encode(value)
