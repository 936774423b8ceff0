"""What the answer of NATS about its health says."""

from __future__ import annotations

import pytest

from noetl.runtime.devcluster.services import fault_of

RESTARTED = "restarted: its disk was full, and has space again"


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b'{"data": {"status": "error", "error": "JetStream stream: write error: no space"}}', RESTARTED),
        (b'{"data": {"status": "ok"}}', ""),
        (b'{"error": {"code": 408}}', ""),
        (b'{"data": null}', ""),
        (b"", ""),
        (b"\xff", ""),
    ],
)
def test_only_a_disk_that_was_full_is_a_fault_of_nats(answer: bytes, fault: str) -> None:
    assert fault_of(answer) == fault
