"""Playbooks that appear as tools of their own in `noetl mcp`: `metadata.expose_as_tool`."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

EXPOSE: Final = "expose_as_tool"  # the key under `metadata`
NAME_CHARS_MAX: Final = 64  # that clients accept
# The names of the tools that are always there. A playbook cannot have one of them.
VERBS: Final = (
    "describe_language", "list_tools", "describe_tool", "check", "explain", "plan", "test", "run", "status", "output",
    "events", "logs", "state", "why", "fork", "what_if", "diff", "list", "signal", "cancel",
)  # fmt: skip
_DIGEST_CHARS: Final = 6
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(path: str) -> str:
    """`shop/orders` is `shop_orders`."""
    return _OTHER.sub("_", path)


def distinct_name(path: str) -> str:
    """The name of a playbook whose path gives the same name as another path: it depends on this path alone."""
    digest = sha256(path.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{tool_name(path)[: NAME_CHARS_MAX - _DIGEST_CHARS - 1]}_{digest}"


def name_problem(path: str) -> str | None:
    """Why a playbook with this path cannot be a tool; None: it can."""
    name = tool_name(path)
    if name in VERBS:
        return f'the tool would have the name "{name}", which is a tool of NoETL: choose another path'
    if len(name) > NAME_CHARS_MAX:
        return f"the path has {len(name)} characters, and the name of a tool has at most {NAME_CHARS_MAX}"
    return None
