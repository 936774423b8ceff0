"""Times of triggers, and what `check` says about their declarations (D112)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.control.triggers import CATCHUP_MAX, due_times
from noetl.net.triggers import Schedule
from noetl.playbook.model import Catchup, Trigger
from noetl.views.explain import explain, explanation_lines
from tests.playbooks import checked, kinds

AT = datetime(2026, 3, 1, tzinfo=UTC)
BODY = """\
keychain:
- {name: shop_key, kind: bearer, token: x}
triggers:
- {TRIGGER}
workflow:
- step: start
  tool: {kind: noop}
"""


def cron(text: str, zone: str = "Europe/Zurich", *, jitter_s: float = 0, catchup: Catchup = "last") -> Schedule:
    trigger = Trigger(name="t", kind="cron", cron=text, timezone=zone, jitter_s=jitter_s, catchup=catchup)
    return Schedule(trigger, AT)


def interval(every_s: float, catchup: Catchup = "last", jitter_s: float = 0) -> Schedule:
    return Schedule(Trigger(name="t", kind="interval", every_s=every_s, catchup=catchup, jitter_s=jitter_s), AT)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(schedule: Schedule, begin: str, count: int) -> list[str]:
    found = schedule.times(schedule.after(utc(begin)), count)
    return [each.strftime("%m-%d %H:%M") for each in found]


def test_a_cron_expression_is_in_its_time_zone() -> None:
    assert times(cron("0 6 * * 1-5"), "2026-01-09T12:00", 2) == ["01-12 05:00", "01-13 05:00"]
    assert times(cron("0 6 * * 1-5"), "2026-07-03T12:00", 2) == ["07-06 04:00", "07-07 04:00"]
    assert times(cron("0 6 * * *", "UTC"), "2026-07-03T06:00", 1) == ["07-04 06:00"]


def test_a_time_that_a_change_of_the_clock_skips_is_the_first_moment_after_it() -> None:
    # On 29 March 2026 the clocks in Zurich go from 02:00 (01:00 UTC) to 03:00.
    assert times(cron("30 2 * * *"), "2026-03-27T12:00", 3) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_a_time_that_a_change_of_the_clock_repeats_is_its_first_occurrence() -> None:
    # On 25 October 2026 the clocks go from 03:00 (01:00 UTC) back to 02:00.
    assert times(cron("30 2 * * *"), "2026-10-24T12:00", 2) == ["10-25 00:30", "10-26 01:30"]


def test_an_expression_for_every_hour_or_minute_follows_real_time() -> None:
    assert times(cron("0 * * * *"), "2026-03-28T23:30", 3) == ["03-29 00:00", "03-29 01:00", "03-29 02:00"]
    assert times(cron("*/30 * * * *"), "2026-10-24T23:45", 4) == [
        "10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30",
    ]  # fmt: skip


def test_an_interval_counts_from_its_registration() -> None:
    schedule = interval(90)
    assert schedule.after(AT) == AT + timedelta(seconds=90)
    assert schedule.until(AT + timedelta(seconds=200)) == AT + timedelta(seconds=180)
    assert schedule.until(AT + timedelta(seconds=180)) == AT + timedelta(seconds=180)


@given(
    st.sampled_from(["* * * * *", "0 6 * * 1-5", "30 2 * * *", "*/7 3,15 1-9 * *", "0 0 29 2 *"]), st.integers(0, 10**7)
)
def test_the_last_time_until_and_the_next_time_after_are_neighbours(text: str, minutes: int) -> None:
    schedule, at = cron(text), AT + timedelta(minutes=minutes, seconds=17)
    later = schedule.after(at)
    assert schedule.until(later) == later > at
    earlier = schedule.until(at)
    assert earlier <= at
    assert schedule.after(earlier) == later


def test_jitter_is_the_same_for_every_process_and_another_for_every_time() -> None:
    schedule = cron("* * * * *", jitter_s=30)
    found = [schedule.jitter("p", AT + timedelta(minutes=minute)) for minute in range(50)]
    assert found == [schedule.jitter("p", AT + timedelta(minutes=minute)) for minute in range(50)]
    assert len(set(found)) == 50
    assert timedelta(0) <= min(found) < max(found) < timedelta(seconds=30)
    assert schedule.jitter("q", AT) != found[0]


@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=30),
    st.sampled_from(
        [interval(10, "all"), interval(10, "all", 9), interval(10, "all", 60), cron("* * * * *", catchup="all")]
    ),
)
def test_with_catchup_all_every_time_is_handled_once_in_order(waits: list[int], schedule: Schedule) -> None:
    now = AT
    first, handled = schedule.after(AT), []
    for wait in waits:
        now += timedelta(seconds=wait)
        while first + schedule.jitter("p", first) <= now:
            due = due_times(schedule, "p", first, now)
            assert due.skipped is None
            assert len(due.times) <= CATCHUP_MAX
            handled += due.times
            first = due.next
    assert [*handled, first] == schedule.times(schedule.after(AT), len(handled) + 1)


def test_missed_times_start_the_last_one_or_nothing() -> None:
    first = AT + timedelta(seconds=60)
    for late_s, last, none in ((0, 1, 1), (59, 1, 1), (60, 2, 2), (3_600, 61, 61), (3_659, 61, 61)):
        now = first + timedelta(seconds=late_s)
        due = due_times(interval(60), "p", first, now)
        assert due.times == [AT + timedelta(seconds=60 * last)]
        assert due.next == AT + timedelta(seconds=60 * (last + 1))
        assert (due.skipped is None) == (last == 1)
        assert due_times(interval(60, "none"), "p", first, now).times == [AT + timedelta(seconds=60 * none)]
    due = due_times(interval(3_600, "none"), "p", AT + timedelta(hours=1), AT + timedelta(hours=1, seconds=61))
    assert due.times == []
    assert due.skipped == (AT + timedelta(hours=1),) * 2


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ('name: a, kind: cron, cron: "0 6 * *"', "five fields"),
        ('name: a, kind: cron, cron: "0 25 * * *"', "bad hour"),
        ('name: a, kind: cron, cron: "0 6 31 2 *"', "bad day-of-month"),
        ('name: a, kind: cron, cron: "0 6 * * *", timezone: Mars/Base', 'no time zone "Mars/Base"'),
        ('name: a, kind: cron, cron: "0 6 * * *", timezone: ../../etc/passwd', "no time zone"),
        ("name: a, kind: interval, every_s: 0.1", "at least 1"),
        ("name: a, kind: interval, every_s: 60, jitter_s: 100000", "one day"),
        ("name: a, kind: interval, every_s: 60, catchup: some", '"some"'),
        ("name: a, kind: webhook, path: ../x", "a path consists of names"),
        ("name: a, kind: webhook, path: x, verify: {}", "exactly one of"),
        ("name: a, kind: webhook, path: x, verify: {token: other}", 'no entry "other"'),
        ("name: a, kind: webhook, path: x, verify: {hmac: {secret: shop_key, header: 'a b'}}", "the name of a header"),
        ("name: a, kind: interval, every_s: 60, workload: {x: '{{ ctx.x }}'}", '"ctx" is unknown here'),
        ("name: a, kind: interval, every_s: 60, workload: {x: '{{ request.body }}'}", '"request" is unknown here'),
        ("name: a, kind: webhook, path: x, key: '{{ request. }}'", 'a name is missing after "."'),
        ("name: a, kind: mqtt, topic: x", '"mqtt"'),
        ("name: a, kind: nats", 'needs "subject" or "stream"'),
        ("name: a, kind: nats, subject: a..b", "a subject consists of names"),
        ("name: a, kind: nats, subject: a.>.b", "a subject consists of names"),
        ("name: a, kind: nats, subject: '>'", "also carries the messages of NoETL"),
        ("name: a, kind: nats, subject: noetl.work.>", "also carries the messages of NoETL"),
        ("name: a, kind: nats, subject: '$JS.>'", "also carries the messages of NoETL"),
        ("name: a, kind: nats, stream: NOETL_WORK", "belongs to NoETL"),
        ("name: a, kind: nats, stream: a.b", "the name of a stream"),
        ("name: a, kind: nats, subject: x, auth: other", 'no entry "other"'),
        ("name: a, kind: nats, subject: x, auth: shop_key", "nats_credential"),
        ("name: a, kind: nats, subject: x, key: '{{ request.body }}'", '"request" is unknown here'),
        ("name: a, kind: webhook, path: x}\n- {name: b, kind: webhook, path: x", "the same method and path"),
        ("name: a, kind: webhook, path: x}\n- {name: a, kind: webhook, path: y", '"a"'),
    ],
)
def test_a_bad_trigger_is_reported(trigger: str, message: str) -> None:
    found = checked(BODY.replace("TRIGGER", trigger)).errors
    assert len(found) == 1, found
    assert message in found[0].message


def test_a_good_trigger_of_messages() -> None:
    body = BODY.replace("kind: bearer, token: x", "kind: nats_credential, url: x")
    rows = {
        "name: a, kind: nats, subject: shop.*.new, auth: shop_key": "NATS subject shop.*.new",
        "name: a, kind: nats, stream: ORDERS, subject: shop.>, deliver: all, auth: shop_key": (
            "NATS stream ORDERS subject shop.>"
        ),
        "name: a, kind: nats, subject: '>', auth: shop_key": "NATS subject >",
        "name: a, kind: nats, stream: ORDERS, auth: shop_key": "NATS stream ORDERS",
    }
    for trigger, schedule in rows.items():
        template = "workload: {x: \"{{ message.headers['id'] }}{{ message.data }}\"}"
        result = checked(body.replace("TRIGGER", f"{trigger}, {template}"))
        assert result.problems == ()
        assert result.program is not None
        assert explain(result.program, kinds()).triggers == (("a", schedule),)


def test_a_good_trigger_uses_its_credential() -> None:
    hook = "name: a, kind: webhook, path: x, verify: {token: shop_key}, key: \"{{ request.headers['x-id'] }}\""
    result = checked(BODY.replace("TRIGGER", hook))
    assert result.problems == ()
    assert result.program is not None
    [trigger] = result.program.triggers
    explanation = explain(result.program, kinds())
    assert explanation.triggers == (("a", "POST /hooks/x"),)
    assert "Triggers" in ["".join(part.text for part in line) for line in explanation_lines(explanation, 80)]
    assert trigger.source.verify is not None
    assert (trigger.source.verify.header, trigger.source.verify.signed) == ("Authorization", False)
