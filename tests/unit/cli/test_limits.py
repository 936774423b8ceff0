"""`noetl show` of an execution that waits for a limit."""

from __future__ import annotations

from noetl.cli.output.tree import limit_text
from noetl.views.documents import LimitDocument


def test_a_wait_names_who_holds_the_limit() -> None:
    one = LimitDocument(waits="fetch#1", key="shop a", permit="fetch#1", ahead=2, held_by=("0199b3c2-0000", "e"))
    assert limit_text(one, "e") == (
        'fetch#1 waits for the limit "shop a", 2 are before it; held by 0199b3c2-0000, this execution'
    )
    other = LimitDocument(waits="", key="", permit="", ahead=1)
    assert limit_text(other, "e") == "it waits for its turn, 1 is before it"
