"""What we ask of the world. An adapter is right when it passes the contract in noetl.testing."""

from noetl.ports.catalog import Catalog, Text, Version
from noetl.ports.log import Append, EventStore, Head, Holding, Listing, Owned, Partitions, Row, Snapshot
from noetl.ports.results import Clearing, Kept, ResultStore
from noetl.ports.secrets import Fetched, SecretProvider, SecretRow, SecretRows, Token, Tokens
from noetl.ports.work import (
    Answer,
    Claim,
    Epoch,
    Feed,
    Grant,
    Heard,
    Link,
    Pointer,
    Roster,
    WorkerSeen,
    WorkQueue,
)

__all__ = [
    "Answer",
    "Append",
    "Catalog",
    "Claim",
    "Clearing",
    "Epoch",
    "EventStore",
    "Feed",
    "Fetched",
    "Grant",
    "Head",
    "Heard",
    "Holding",
    "Kept",
    "Link",
    "Listing",
    "Owned",
    "Partitions",
    "Pointer",
    "ResultStore",
    "Roster",
    "Row",
    "SecretProvider",
    "SecretRow",
    "SecretRows",
    "Snapshot",
    "Text",
    "Token",
    "Tokens",
    "Version",
    "WorkQueue",
    "WorkerSeen",
]
