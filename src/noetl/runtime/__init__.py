"""URLs in, a running house out: embedded on one file, or a server and workers on PostgreSQL and NATS.

Whoever runs one playbook loads the embedded house only.
"""

from noetl.runtime.embedded import (
    GRACE_S,
    EmbeddedRuntime,
    LocalStore,
    open_embedded,
    open_local_store,
    record_refused,
    relax_collector,
)

__all__ = [
    "GRACE_S",
    "EmbeddedRuntime",
    "LocalStore",
    "open_embedded",
    "open_local_store",
    "record_refused",
    "relax_collector",
]
