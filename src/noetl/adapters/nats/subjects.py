"""Names in NATS. This module does not import nats-py: the configuration of NATS is written without it."""

from __future__ import annotations

from typing import Final

STREAM: Final = "NOETL_WORK"
SUBJECT: Final = "noetl.work"  # plus the name of a pool
NEXT: Final = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}"
BUCKET: Final = "noetl-results"
INBOX: Final = "_INBOX"  # the prefix of the subjects for replies
