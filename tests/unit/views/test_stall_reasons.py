"""Why an execution does not advance: pauses, missing processes and missing workers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noetl.testing.scenario import Player
from noetl.views.pools import PoolLoad, ShareWait
from noetl.views.stall_reasons import INTERRUPTED, with_reasons, with_stalls
from noetl.views.timeline import Timeline, TimelineDocument
from noetl.views.why import why
from tests.playbooks import kinds
from tests.unit.views.playing import played

GPU = """
workflow:
- step: start
  spec: {pool: gpu}
  tool: {kind: http, url: x}
"""
LOOP = """
workflow:
- step: start
  loop: {in: "{{ ['a', 'b', 'c'] }}", iterator: name, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: http, url: x}
"""


def stalled(
    player: Player, load: PoolLoad, *, owner_alive: bool = True, share_waits: Sequence[ShareWait] = ()
) -> TimelineDocument:
    timeline = Timeline("e")
    for event in player.log:
        timeline.feed(event)
    return with_stalls(
        timeline.document(), player.program, lambda _: load, owner_alive=owner_alive, share_waits=share_waits
    )


def reason(document: TimelineDocument) -> str | None:
    return document.steps[0].runs[-1].why


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (PoolLoad(0, 0, 0), 'waits for a worker: the pool "gpu" has none'),
        (PoolLoad(2, 8, 8), 'waits for a worker: the 8 slots of the pool "gpu" are busy'),
        (PoolLoad(1, 1, 1), 'waits for a worker: the slot of the pool "gpu" is busy'),
        (PoolLoad(1, 4, 3), None),
    ],
)
def test_a_run_that_is_due_names_its_pool(load: PoolLoad, words: str | None) -> None:
    assert reason(stalled(played(GPU), load)) == words


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (ShareWait("gpu", 28, 28, ("start#1",)), 'the execution holds 28 of the 32 slots of the pool "gpu", its share'),
        (
            ShareWait("gpu", 30, 28, ("start#1",)),
            'the execution holds 30 of the 32 slots of the pool "gpu", its share is 28',
        ),
        (ShareWait("gpu", 32, 32, ("start#1",)), None),  # the share is the whole pool
        (ShareWait("gpu", 28, 28, ("other#1",)), None),
    ],
)
def test_frames_that_wait_for_the_share_of_their_execution_say_so(wait: ShareWait, words: str | None) -> None:
    player = played(LOOP, "report start#1[1] error")
    document = stalled(player, PoolLoad(2, 32, 28), share_waits=[wait])
    expected = words and f"waits for a slot: {words} (NOETL_SLOT_RESERVE)"
    assert (document.why, reason(document)) == (None, expected)
    told = with_reasons(why(player.program, "e", player.log, "start"), document)
    assert told.runs[0].waits_for == (expected and expected.removeprefix("waits "))


def test_a_share_is_no_reason_while_the_whole_execution_is_paused() -> None:
    document = stalled(played(GPU, "pause"), PoolLoad(1, 32, 28), share_waits=[ShareWait("gpu", 28, 28, ("start#1",))])
    assert (document.why, reason(document)) == ("paused", "paused")


def test_a_paused_execution_says_so_for_each_unfinished_run() -> None:
    document = stalled(played(GPU, "pause"), PoolLoad(1, 4, 0))
    assert (document.why, reason(document)) == ("paused", "paused")


def test_an_execution_without_a_process_is_interrupted() -> None:
    document = stalled(played(GPU), PoolLoad(1, 4, 0), owner_alive=False)
    assert (document.why, reason(document)) == (INTERRUPTED, INTERRUPTED)


def test_an_ended_execution_waits_for_nothing() -> None:
    document = stalled(played(GPU, "report start#1 ok"), PoolLoad(0, 0, 0), owner_alive=False)
    assert (document.status, document.why, reason(document)) == ("ok", None, None)


def test_the_reasons_of_a_step_name_its_pool() -> None:
    player = played(GPU)
    found = why(player.program, "e", player.log, "start")
    assert found.runs[0].waits_for is None, "the log does not know it"
    told = with_reasons(found, stalled(player, PoolLoad(0, 0, 0)))
    assert told.runs[0].waits_for == 'for a worker: the pool "gpu" has none'


def test_failed_calls_of_a_loop_name_their_item_and_the_loop_its_width() -> None:
    document = stalled(played(LOOP, "report start#1[1] error"), PoolLoad(1, 4, 0))
    (run,) = document.steps[0].runs
    assert [(call.id, call.item) for call in run.calls] == [("start#1[1]/1", '"b"')]
    assert run.width == 2


def test_a_step_that_a_cancellation_has_stopped_has_not_failed() -> None:
    document = stalled(played(GPU, "begin start#1", "cancel"), PoolLoad(1, 4, 0))
    counts = dict(zip(document.counts, document.steps[0].changes[-1][1:], strict=True))
    assert (counts["failed"], counts["stopped"] or counts["running"] or counts["scheduled"]) == (0, 1)


LIMITED = """
executor: {spec: {policy: {concurrency: {key: "{{ workload.account }}", limit: 1}}}}
workload: {account: a}
workflow:
- step: start
  tool: {kind: http, url: x}
"""


def test_an_execution_that_waits_for_its_turn_names_the_limit() -> None:
    player = Player(LIMITED, kinds())
    player.play("start --held a")
    assert stalled(player, PoolLoad(1, 4, 0)).why == 'waits for the limit "a" (1 execution)'
    player.play("permit")
    assert stalled(player, PoolLoad(1, 4, 0)).why is None
