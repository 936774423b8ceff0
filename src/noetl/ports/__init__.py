"""The interfaces between the core and the outside world, with their failure semantics.

An adapter is correct if it passes the contract tests in `noetl.testing.contracts`.
"""

from noetl.ports.storage import (
    ApiToken,
    ApiTokenStore,
    Append,
    Catalog,
    EventStore,
    ExecutionHead,
    ExecutionListing,
    ExecutionOwnership,
    FetchedCredential,
    FilteredListing,
    LogRow,
    OwnedPartitions,
    Partitions,
    PlaybookText,
    PlaybookVersion,
    ResultCleanup,
    ResultStore,
    RoleGrant,
    SecretInfo,
    SecretProvider,
    SecretRow,
    SecretRows,
    Snapshot,
    StoredResult,
)
from noetl.ports.transport import (
    REPLY_TIMEOUT_S,
    Collect,
    Handler,
    Message,
    NoResponder,
    ReplyTimeout,
    Subscription,
    Transport,
    first_reply,
)
from noetl.ports.work import (
    Claim,
    Epoch,
    Feed,
    FeedEvent,
    Grant,
    Link,
    Pointer,
    QueueBackend,
    QueueTraits,
    ReportAnswer,
    WorkerInfo,
    WorkerRegistry,
    WorkQueue,
)

__all__ = [
    "REPLY_TIMEOUT_S", "ApiToken", "ApiTokenStore", "Append", "Catalog", "Claim", "Collect", "Epoch",
    "EventStore", "ExecutionHead", "ExecutionListing", "ExecutionOwnership", "Feed", "FeedEvent",
    "FetchedCredential", "FilteredListing", "Grant", "Handler", "Link", "LogRow", "Message", "NoResponder",
    "OwnedPartitions", "Partitions", "PlaybookText", "PlaybookVersion", "Pointer", "QueueBackend",
    "QueueTraits", "ReplyTimeout", "ReportAnswer", "ResultCleanup", "ResultStore", "RoleGrant",
    "SecretInfo", "SecretProvider", "SecretRow", "SecretRows", "Snapshot", "StoredResult", "Subscription",
    "Transport", "WorkQueue", "WorkerInfo", "WorkerRegistry", "first_reply",
]  # fmt: skip
