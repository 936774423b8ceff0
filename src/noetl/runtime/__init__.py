"""Assembles runtimes from settings: embedded on one file, or servers and workers on PostgreSQL and NATS.

The embedded runtime is loaded on first use: many commands need only the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noetl.runtime.embedded import (
        EmbeddedRuntime,
        LocalStore,
        RuntimeHooks,
        open_embedded,
        open_local_store,
        record_refused,
        relax_collector,
    )

__all__ = [
    "EmbeddedRuntime",
    "LocalStore",
    "RuntimeHooks",
    "open_embedded",
    "open_local_store",
    "record_refused",
    "relax_collector",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from noetl.runtime import embedded

    return getattr(embedded, name)
