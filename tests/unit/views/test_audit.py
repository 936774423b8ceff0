"""The auditor finds nothing in sound logs, and every kind of damage that we plant in one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import noetl.views.audit
import noetl.views.compensation_audit
import noetl.views.hold_audit
import noetl.views.loop_audit
from noetl.engine import Event, facts
from noetl.engine.facts import Fact, Token
from noetl.output import Failure, Output
from noetl.ports import LogRow
from noetl.testing.scenario import START, audit
from noetl.views.audit import FINDINGS_MAX, AuditFinding, findings
from tests.properties.driving import Drive, compiled
from tests.properties.executable import CALL_OUTPUTS, CallOutputs, Executable, executables
from tests.unit.views.playing import logged, played, scenarios

CHAIN = """
workflow:
- step: start
  tool: {kind: http, url: x}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: noop}
"""
LOOP = """
workflow:
- step: start
  loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
  tool: {kind: http, url: x}
"""
BLOCK = """
workflow:
- step: start
  tool: {kind: workbook, block: b}
workbook:
  b: {tool: {kind: http, url: x}}
"""
GATE = """
workflow:
- step: start
  spec: {policy: {admit: {rules: [{when: "{{ ctx.go | default(false) }}", then: {allow: true}}]}}}
  tool: {kind: noop}
"""
SPOILED = """
workflow:
- step: start
  spec: {policy: {admit: {rules: [{when: "{{ ctx.no.such > 1 }}", then: {allow: true}}]}}}
  tool: {kind: noop}
"""
RETRY = """
workflow:
- step: start
  tool: {kind: http, url: x, spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry}}]}}}
"""
COMPENSATE = """
workflow:
- step: start
  tool: {kind: http, url: x}
  compensate: {tool: {kind: http, url: undo}}
  next: {arcs: [{step: second}]}
- step: second
  tool: {kind: http, url: x}
  compensate: {tool: {kind: http, url: undo}}
  next: {arcs: [{step: last}]}
- step: last
  tool: {kind: http, url: x}
"""

LIMITED = """
workflow:
- step: start
  spec: {policy: {limit: {key: shop, in_flight: 1}}}
  tool: {kind: http, url: x}
"""

Log = list[Fact]


def made(body: str, *commands: str) -> Log:
    return [event.fact for event in played(body, *commands).log]


CHAINED = made(CHAIN, "report start#1 ok")
LOOPED = made(LOOP, "report start#1[0] ok", "report start#1[1] ok", "report start#1[2] ok")
CALLED = made(BLOCK, "report start#1/b#1 ok")
WAITED = made(GATE)
TRIED = made(RETRY, "report start#1 error", "report start#1 ok")
FAILED = made(CHAIN, "report start#1 error http")
PAUSED = made(CHAIN, "pause")
CANCELLED = made(CHAIN, "cancel", "close")
PERMITTED = made(LIMITED, "permit start#1", "report start#1 ok")
HELD = made(
    CHAIN, "break last", "report start#1 ok", 'change last#1 {"ctx.n": 1}', "clear last", "release last#1",
)  # fmt: skip
TWO_TOKENS = made(SPOILED, "retry")
UNDONE = made(
    COMPENSATE, "report start#1 ok", "report second#1 ok", "report last#1 error http",
    "report second#1/compensate#1 error http", "report start#1/compensate#1 ok", "retry",
)  # fmt: skip


def without(log: Log, *seqs: int) -> Log:
    return [fact for seq, fact in enumerate(log, 1) if seq not in seqs]


def after(log: Log, seq: int, *added: Fact) -> Log:
    return [*log[:seq], *added, *log[seq:]]


def again(log: Log, seq: int) -> Log:
    """The same fact, twice."""
    return after(log, seq, log[seq - 1])


def instead(log: Log, seq: int, **values: object) -> Log:
    return [*log[: seq - 1], replace(log[seq - 1], **values), *log[seq:]]


def told(log: Log) -> list[tuple[int, str, str]]:
    return [(each.seq, each.code, each.message) for each in findings(logged(*log))]


ERROR = Failure(kind="http", message="no")
PLANTED: dict[str, tuple[Log, list[tuple[int, str, str]]]] = {
    "a second request": (
        again(CHAINED, 1),
        [(2, "begin", "playbook.execution.requested is not the first fact, or not the only one")],
    ),
    "no request": (
        CHAINED[1:2],
        [
            (1, "begin", "playbook.request.evaluated before playbook.execution.requested"),
            (1, "begin", "playbook.request.evaluated does not follow the request"),
            (1, "torn", "the log ends between facts that are recorded together"),
        ],
    ),
    "never evaluated": (
        without(CHAINED[:3], 2),
        [(2, "begin", "workflow.started does not follow a successful evaluation")],
    ),
    "something after the end": (
        after(CHAINED, 15, facts.Paused()),
        [(16, "after-end", "execution.paused after playbook.processed")],
    ),
    "something between the two ends": (
        after(CHAINED, 14, facts.Paused()),
        [
            (15, "after-end", "execution.paused after workflow.finished"),
            (16, "end", "playbook.processed while the execution is paused"),
        ],
    ),
    "an end without its second half": (
        CHAINED[:14],
        [(14, "torn", "the log ends between facts that are recorded together")],
    ),
    "two ends that disagree": (
        instead(CHAINED, 15, status="error"),
        [(15, "end", "playbook.processed says error, but workflow.finished said ok")],
    ),
    "a schedule in a pause": (
        after(CHAINED[:8], 8, facts.Paused(), CHAINED[8]),
        [(10, "not-running", "step.scheduled while the execution is paused")],
    ),
    "paused twice": (
        again(PAUSED, 5),
        [(6, "command", "execution.paused while the execution is paused")],
    ),
    "cancelled and finished ok": (
        after(CHAINED, 13, facts.Cancelled()),
        [(15, "command", "workflow.finished ok while the execution is cancelling")],
    ),
    "finished as cancelled without a cancel": (
        without(CANCELLED, 5),
        [
            (6, "command", "workflow.finished cancelled while the execution is running"),
            (6, "left-unrouted", "the execution ends, but start#1 was never routed"),
        ],
    ),
    "a retry of what has not ended": (
        after(CHAINED[:5], 5, facts.Retried()),
        [(6, "command", "execution.retried while the execution is running")],
    ),
    "a retry that takes nothing up": (
        after(FAILED, len(FAILED), facts.Retried(runs=("start#1",)), facts.Paused()),
        [(12, "retry", "start#1 should be retried before execution.paused")],
    ),
    "a retry without a command": (
        after(FAILED, len(FAILED), facts.Retried(), facts.StepScheduled(run="start#2", step="start", retry_of="start#1")),
        [(12, "retry", "start#2 retries start#1, but no command requested it")],
    ),
    "a run that never ends": (
        without(CHAINED, 12, 13),
        [(12, "left-running", "the execution ends, but last#1 has not ended")],
    ),
    "a run that is never routed": (
        without(CHAINED, 13),
        [(13, "left-unrouted", "the execution ends, but last#1 was never routed")],
    ),
    "a lost token": (
        without(CHAINED, 9, 10, 11, 12, 13),
        [(9, "lost-token", "tokens at the end: start#1>0 not listed, none listed but unknown")],
    ),
    "a token at the end that is none": (
        instead(CHAINED, 14, waiting=("x>0",)),
        [(14, "lost-token", "tokens at the end: none not listed, x>0 listed but unknown")],
    ),
    "a token that is made twice": (
        instead(CHAINED, 13, tokens=(Token(id="start#1>0", step="last"),))[:13],
        [(13, "token", "start#1>0 is made twice")],
    ),
    "a token that is consumed twice": (
        after(CHAINED[:9], 9, facts.StepScheduled(run="last#2", step="last", tokens=("start#1>0",))),
        [(10, "token", "start#1>0 is consumed twice")],
    ),
    "a token from nowhere": (
        instead(CHAINED[:4], 4, tokens=("x>9",)),
        [(4, "token", "x>9 is consumed but was never made")],
    ),
    "a token of another step": (
        instead(CHAINED[:9], 9, step="start"),
        [(9, "token", "start#1>0 leads to last, but start consumes it")],
    ),
    "a run without a token": (
        instead(CHAINED[:4], 4, tokens=()),
        [(4, "token", "start#1 is scheduled without a token")],
    ),
    "a token that is not there and waits": (
        after(CHAINED[:4], 4, facts.StepWaiting(token=">0")),
        [(5, "token", ">0 waits but does not exist")],
    ),
    "a token that is tried again and had not failed": (
        instead(TWO_TOKENS[:7], 7, tokens=("x>1",)),
        [(7, "token", "x>1 is tried again, but its admission had not failed")],
    ),
    "a token that says twice that it waits": (
        again(WAITED[:4], 4),
        [(5, "waiting-twice", ">0 waits already")],
    ),
    "a run that is scheduled twice": (
        instead(CHAINED[:9], 9, run="start#1"),
        [(9, "scheduled-twice", "start#1 is scheduled twice")],
    ),
    "a block without a call": (
        without(CALLED[:7], 6),
        [(6, "block", "start#1/b#1 is scheduled, but start#1 has not called b")],
    ),
    "an answer of another block": (
        instead(CALLED[:11], 11, run="start#1/b#2"),
        [(11, "block", "start#1/b#2 resumes start#1, but is not an ended call of it")],
    ),
    "a block that is routed": (
        after(CALLED[:10], 10, facts.NextEvaluated(run="start#1/b#1")),
        [(11, "routing", "start#1/b#1 is routed, but it belongs to a block, which resumes its caller")],
    ),
    "a run that is started twice": (again(CHAINED[:5], 5), [(6, "started-twice", "start#1 is started twice")]),
    "a run that was not scheduled": (
        instead(CHAINED[:5], 5, run="x#1"),
        [(5, "unknown-run", "step.started of x#1, which is not scheduled")],
    ),
    "a run that ends twice": (
        again(CHAINED[:7], 7),
        [(8, "ended-twice", "start#1 has already ended and ends again with step.done")],
    ),
    "a run that ends well and then badly": (
        after(CHAINED[:7], 7, facts.StepFailed(run="start#1", error=ERROR)),
        [(8, "ended-twice", "start#1 has already ended and ends again with step.failed")],
    ),
    "a call after the end of its run": (
        after(CHAINED[:7], 7, CHAINED[5]),
        [(8, "late", "task.done of start#1, which has ended")],
    ),
    "a run that is routed twice": (
        again(CHAINED[:8], 8),
        [(9, "routing", "start#1 is routed, but it does not exist, or was routed before"), (9, "token", "start#1>0 is made twice")],
    ),
    "a run that is routed before it ends": (
        without(CHAINED[:8], 7),
        [(7, "routing", "start#1 is routed, but it has not ended")],
    ),
    "a call that is in the log twice": (
        again(TRIED[:6], 6),
        [
            (7, "call-twice", "start#1: call 1 is in the log already"),
            (7, "attempt", "start#1: attempt 1 where 2 is next"),
        ],
    ),
    "a call left out": (instead(CHAINED[:6], 6, call=2), [(6, "call-gap", "start#1: call 2 after 0")]),
    "a call when the last task is done": (
        after(CHAINED[:6], 6, replace(CHAINED[5], call=2)),
        [(7, "position", "start#1: call 2, but its last task is done")],
    ),
    "a call while the frame is parked": (
        after(CALLED[:6], 6, facts.TaskDone(frame="start#1", call=1, task="t", directive="continue", next=-1)),
        [(7, "parked", "start#1 makes call 1 while it is parked")],
    ),
    "a frame that is parked twice": (again(CALLED[:6], 6), [(7, "parked", "start#1 is parked twice")]),
    "a frame that is resumed and was not parked": (
        after(CHAINED[:5], 5, facts.FrameResumed(frame="start#1")),
        [(6, "parked", "start#1 is resumed, but was not parked")],
    ),
    "an attempt left out": (
        instead(TRIED[:7], 7, attempt=3),
        [(7, "attempt", "start#1: attempt 3 where 2 is next")],
    ),
    "an older hand": (
        instead(TRIED[:7], 7, epoch=(0, 9)),
        [(7, "stale-epoch", "start#1: epoch (0, 9) after (1, 1)")],
    ),
    "a loop that is started twice": (
        again(LOOPED[:5], 5),
        [(6, "loop-twice", "the loop of start#1 is started twice")],
    ),
    "an iteration of no loop": (
        instead(CHAINED[:6], 6, frame="start#1[0]"),
        [(6, "iteration", "start#1[0] is in the log, but there is no loop")],
    ),
    "a call of a looped run outside its loop": (
        instead(LOOPED[:7], 7, frame="start#1"),
        [(7, "iteration", "start#1 has a loop, but also a call of its own")],
    ),
    "an iteration that lands in no loop": (
        after(CHAINED[:5], 5, facts.IterationDone(run="start#1", index=0)),
        [(6, "iteration", "start#1[0] has ended, but there is no loop")],
    ),
    "a loop that is done and never started": (
        after(CHAINED[:5], 5, facts.LoopDone(run="start#1", output=Output())),
        [(6, "iteration", "the loop of start#1 is done, but was not started")],
    ),
    "an iteration beyond the items": (
        instead(LOOPED[:7], 7, frame="start#1[3]"),
        [(7, "iteration", "start#1[3] is in the log, but the loop has 3 items")],
    ),
    "an iteration that lands twice": (
        again(LOOPED[:8], 8),
        [(9, "iteration-twice", "start#1[0] has already ended")],
    ),
    "an iteration that lands before its last task": (
        [*instead(LOOPED[:7], 7, next=1), LOOPED[7]],
        [(8, "position", "start#1[0] has ended, but its last task was not done")],
    ),
    "an iteration too far ahead": (
        instead(LOOPED[:7], 7, frame="start#1[2]"),
        [(7, "width", "start#1[2] is in the log before it can have been scheduled")],
    ),
    "more iterations than may fly": (
        [*instead(LOOPED[:5], 5, width=1), LOOPED[5], LOOPED[6], replace(LOOPED[8], frame="start#1[1]")],
        [
            (8, "width", "start#1[1] is in the log before it can have been scheduled"),
            (8, "width", "2 iterations of start#1 are in flight; max_in_flight is 1"),
        ],
    ),
    "a loop that counts wrong": (
        instead(LOOPED[:13], 13, output=Output(meta={"count": 3, "succeeded": 2, "failed": 1})),
        [
            (
                13,
                "loop-count",
                "the loop of start#1 says {'count': 3, 'succeeded': 2, 'failed': 1}, "
                "but the log has {'count': 3, 'succeeded': 3, 'failed': 0}",
            )
        ],
    ),
    "a run that has no compensation": (
        instead(UNDONE[:19], 19, runs=("last#1", "second#1")),
        [(19, "compensation", "last#1 is to be undone, but has no compensation")],
    ),
    "compensations in the wrong order": (
        instead(UNDONE[:20], 20, compensates="start#1"),
        [(20, "compensation", "second#1/compensate#1 undoes start#1, which is not the next one")],
    ),
    "two compensations at once": (
        [*UNDONE[:20], UNDONE[23]],
        [(21, "compensation", "start#1/compensate#1 is scheduled while second#1/compensate#1 runs")],
    ),
    "compensations that begin twice": (
        again(UNDONE[:19], 19),
        [(20, "compensation", "execution.compensating for the second time")],
    ),
    "a compensation that is forgotten at the end": (
        instead(UNDONE[:29], 28, uncompensated=()),
        [(28, "compensation", "not compensated: second#1, but the end lists none")],
    ),
    "a compensation that is retried without being asked": (
        instead(UNDONE[:31], 30, compensations=()),
        [(31, "retry", "second#1/compensate#2 retries second#1/compensate#1, but no command requested it")],
    ),
    "a retry of a compensation that has not failed": (
        instead(UNDONE[:30], 30, compensations=("start#1/compensate#1",)),
        [(30, "retry", "start#1/compensate#1 is to be retried, but is not a failed compensation")],
    ),
    "a permit that nothing waits for": (
        again(PERMITTED[:6], 6),
        [(7, "permit", "start#1 gets a permit, but does not wait for one")],
    ),
    "a run that waits for its permit twice": (
        again(PERMITTED[:5], 5),
        [(6, "waiting-twice", "start#1 waits for a permit already")],
    ),
    "a run that begins without its permit": (
        without(PERMITTED[:7], 6),
        [(6, "permit", "start#1 is started without its permit")],
    ),
    "a held run that begins": (
        without(HELD[:14], 13),
        [(13, "held", "last#1 is started while it is held")],
    ),
    "a release of what is not held": (
        again(HELD[:13], 13),
        [(14, "held", "hold.released of last#1, which is not held")],
    ),
    "a value of a read-only scope that is changed by hand": (
        [*HELD[:10], replace(HELD[10], set={"input.n": 1}), *HELD[11:]],
        [(11, "scope", "input.n is changed by hand, but only ctx, step and iter can be")],
    ),
    "a breakpoint that is cleared twice": (
        again(HELD[:12], 12),
        [(13, "breakpoint", "the breakpoint at last is cleared, but was not set")],
    ),
    "a loop that is done too early": (
        [*LOOPED[:10], replace(LOOPED[12], output=Output(meta={"count": 3, "succeeded": 2, "failed": 0}))],
        [(11, "loop-count", "the loop of start#1 is done before all its iterations have ended")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_damage_is_found_and_told(name: str) -> None:
    log, expected = PLANTED[name]
    assert told(log) == expected


def test_a_gap_is_found_where_it_is() -> None:
    log = [event for event in played(CHAIN).log if event.seq != 2]
    assert findings(log[:2]) == [
        AuditFinding(seq=3, code="gap", message="fact 3 is where fact 2 should be"),
        AuditFinding(seq=3, code="begin", message="workflow.started does not follow a successful evaluation"),
    ]


def test_every_code_of_the_auditor_has_damage_planted_for_it() -> None:
    modules = (noetl.views.audit, noetl.views.compensation_audit, noetl.views.hold_audit, noetl.views.loop_audit)
    text = "".join(Path(str(each.__file__)).read_text() for each in modules)
    codes = set(re.findall(r'report\(\s*"([a-z-]+)"', text))
    assert codes == {code for _, expected in PLANTED.values() for _, code, _ in expected} | {"gap"}


def test_the_logs_of_all_scenarios_are_sound() -> None:
    assert {name: findings(player.log) for name, player in scenarios().items() if findings(player.log)} == {}


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(executables(calm=False), CALL_OUTPUTS, st.integers(0, 2**16))
def test_the_logs_of_random_playbooks_are_sound(executable: Executable, outputs: CallOutputs, schedule: int) -> None:
    assert findings(Drive(compiled(executable.document), outputs, schedule, wild=True).run().log) == []


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_log_with_a_fact_left_out_or_repeated_is_audited_to_its_end(data: st.DataObject) -> None:
    """For any log: it never raises, and never misses a gap."""
    log = scenarios()[data.draw(st.sampled_from(sorted(scenarios())))].log
    place = data.draw(st.integers(0, len(log) - 2))
    torn = [*log[:place], *log[place + 1 :]]
    assert "gap" in {each.code for each in findings(torn)}
    findings([Event(seq, event.at, event.fact) for seq, event in enumerate(torn, 1)])
    twice = [*log[: place + 1], *log[place:]]
    findings([Event(seq, event.at, event.fact) for seq, event in enumerate(twice, 1)])


def test_a_log_that_is_broken_from_end_to_end_is_not_read_to_the_end() -> None:
    log = logged(*[facts.StepStarted(run="x#1")] * (FINDINGS_MAX * 2))
    assert len(findings(log)) <= FINDINGS_MAX + 1


def test_a_test_that_audits_gets_the_state_or_an_error_in_words() -> None:
    player = played(CHAIN, "report start#1 ok")
    rows = [LogRow(event.seq, event.at, (event.fact,)) for event in player.log]
    assert audit("e", rows) == player.state
    with pytest.raises(AssertionError, match="e: 3 gap: fact 3 is where fact 2 should be"):
        audit("e", [*rows[:1], *rows[2:]])
    assert audit("e", [LogRow(1, START, ())]).status == "new"
