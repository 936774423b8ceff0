"""Triggers (D112): their compiled templates, and the times of `cron` and `interval`."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError
from msgspec.structs import replace

from noetl.output import JSON
from noetl.playbook.model import Playbook, Trigger
from noetl.playbook.source import Path
from noetl.playbook.validation import ProblemReport
from noetl.template.compile import BadTemplate, Template, Value, build_value, compile_template
from noetl.template.values import Moment

JITTER_S_MAX = 86_400.0
KEY_CHARS_MAX = 255
TIMES_MAX = 4_096  # computed times that are kept
_HOOK = re.compile(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_NAME = r"[^\s.*>\x00-\x1f\x7f]+"
_SUBJECT = re.compile(rf"({_NAME}|\*)(\.({_NAME}|\*))*(\.>)?|>")
_OWN_SUBJECT = re.compile(r"(?!noetl(\.|$))[^$_*>]")
_STREAM = re.compile(r"[^\s./\\*>\x00-\x1f\x7f]{1,255}")
SUBJECT_CHARS_MAX = 1_000
_BASE = datetime(2000, 1, 1, tzinfo=UTC)  # checks of an expression do not depend on the time


class CompiledTrigger(NamedTuple):
    source: Trigger
    workload: Value
    key: Value | None

    def request(self, scope: dict[str, JSON], moment: Moment) -> dict[str, JSON]:
        """The workload of an execution. Raises TemplateError."""
        found = self.workload(scope, moment)
        assert isinstance(found, dict)
        return found

    def delivery_key(self, scope: dict[str, JSON], moment: Moment) -> str | None:
        """The key of a request; None: each request starts an execution. Raises TemplateError."""
        if self.key is None:
            return None
        value = self.key(scope, moment)
        return str(value)[:KEY_CHARS_MAX] if value not in (None, "") else None


def declaration_of(trigger: Trigger) -> str:
    """A trigger as it is stored."""
    return msgspec.json.encode(replace(trigger, at=())).decode()


def trigger_of(declaration: str) -> Trigger:
    return msgspec.json.decode(declaration, type=Trigger)


# Times


@lru_cache(TIMES_MAX)  # a server with thousands of triggers asks for the same times again and again
def _next_time(cron: str, timezone: str, at: datetime) -> datetime:
    return next(CronSim(cron, at.astimezone(ZoneInfo(timezone)))).astimezone(UTC)


@lru_cache(TIMES_MAX)
def _last_time(cron: str, timezone: str, at: datetime) -> datetime:
    begin = (at + timedelta(microseconds=1)).astimezone(ZoneInfo(timezone))
    return next(CronSim(cron, begin, reverse=True)).astimezone(UTC)


class Schedule(NamedTuple):
    """The times of a trigger. Pure: the same for every process and after every restart."""

    trigger: Trigger
    since: datetime  # an interval counts from here

    def after(self, at: datetime) -> datetime:
        """The first time after `at`."""
        if self.trigger.every_s is not None:
            every = timedelta(seconds=self.trigger.every_s)
            return self.since + ((at - self.since) // every + 1) * every
        assert self.trigger.cron is not None
        return _next_time(self.trigger.cron, self.trigger.timezone, at)

    def until(self, at: datetime) -> datetime:
        """The last time that is not after `at`."""
        if self.trigger.every_s is not None:
            every = timedelta(seconds=self.trigger.every_s)
            return self.since + (at - self.since) // every * every
        assert self.trigger.cron is not None
        return _last_time(self.trigger.cron, self.trigger.timezone, at)

    def times(self, first: datetime, count: int) -> list[datetime]:
        """This many times, from `first` on."""
        found = [first]
        while len(found) < count:
            found.append(self.after(found[-1]))
        return found[:count]

    def jitter(self, path: str, at: datetime) -> timedelta:
        """The delay of a time: the same for every process, and another one for every time."""
        if not self.trigger.jitter_s:
            return timedelta(0)
        seed = hashlib.sha256(f"{path} {self.trigger.name} {at.isoformat()}".encode()).digest()
        return timedelta(seconds=int.from_bytes(seed[:8], "big") / 2**64 * self.trigger.jitter_s)


# Compilation


def compile_triggers(playbook: Playbook, report: ProblemReport) -> tuple[CompiledTrigger, ...]:
    """All triggers. Reports what cannot be compiled; a playbook with errors is not registered."""
    found = []
    hooks: dict[tuple[str, str], str] = {}
    for trigger in playbook.triggers:
        if trigger.is_timed:
            _check_times(trigger, report)
        elif trigger.kind == "nats":
            _check_messages(trigger, playbook, report)
        else:
            _check_hook(trigger, playbook, report)
            assert trigger.path is not None
            if (other := hooks.setdefault((trigger.method, trigger.path), trigger.name)) != trigger.name:
                message = f'trigger "{other}" has the same method and path'
                report.add("duplicate-name", (*trigger.at, "path"), message)
        scopes = ("trigger", *{"webhook": ("request",), "nats": ("message",)}.get(trigger.kind, ()))
        workload = _value(trigger.workload, scopes, (*trigger.at, "workload"), report)
        key = None if trigger.key is None else _value(trigger.key, scopes, (*trigger.at, "key"), report)
        found.append(CompiledTrigger(trigger, workload, key))
    return tuple(found)


def _check_times(trigger: Trigger, report: ProblemReport) -> None:
    if trigger.jitter_s > JITTER_S_MAX:
        report.add("bad-value", (*trigger.at, "jitter_s"), f"at most {JITTER_S_MAX:,.0f} seconds: one day")
    if trigger.cron is None:
        return
    try:
        zone = ZoneInfo(trigger.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f'there is no time zone "{trigger.timezone}"'
        report.add("bad-value", (*trigger.at, "timezone"), message, fix="Europe/Zurich")
        return
    at: Path = (*trigger.at, "cron")
    if len(trigger.cron.split()) != 5:
        message = "a cron expression has five fields: minute, hour, day of the month, month, day of the week"
        report.add("bad-value", at, message, fix='"0 6 * * 1-5"')
        return
    try:
        next(CronSim(trigger.cron, _BASE.astimezone(zone)))
    except CronSimError as error:
        report.add("bad-value", at, f"this is not a cron expression: {str(error)[0].lower()}{str(error)[1:]}")
    except StopIteration:
        report.add("bad-value", at, "this cron expression has no time")


def _check_hook(trigger: Trigger, playbook: Playbook, report: ProblemReport) -> None:
    assert trigger.path is not None
    if not _HOOK.fullmatch(trigger.path) or ".." in trigger.path.split("/"):
        message = 'a path consists of names with letters, digits, ".", "_", "~" and "-", with "/" between them'
        report.add("bad-value", (*trigger.at, "path"), message, fix="orders/new")
    verify = trigger.verify
    if verify is None:
        return
    form = "hmac" if verify.signed else "token"
    at: Path = (*trigger.at, "verify", form)
    if verify.secret not in {entry.name for entry in playbook.keychain}:
        where = at if report.document.find((*at, "secret")) is None else (*at, "secret")
        report.add("unknown-credential", where, f'the keychain has no entry "{verify.secret}"')
    if not _HEADER.fullmatch(verify.header):
        report.add("bad-value", (*at, "header"), "the name of a header has letters, digits and hyphens")


def _check_messages(trigger: Trigger, playbook: Playbook, report: ProblemReport) -> None:
    is_own = trigger.auth is None  # the NATS of the server, which also carries the messages of NoETL
    if trigger.subject is not None:
        at: Path = (*trigger.at, "subject")
        if len(trigger.subject) > SUBJECT_CHARS_MAX or not _SUBJECT.fullmatch(trigger.subject):
            message = 'a subject consists of names with dots between them; "*" is any name, and ">" at the end any rest'
            report.add("bad-value", at, message, fix="shop.orders.>")
        elif is_own and trigger.stream is None and not _OWN_SUBJECT.match(trigger.subject):
            message = "the NATS of the server also carries the messages of NoETL: the first name cannot be a wildcard, "
            report.add("bad-value", at, f'{message}"noetl", or begin with "$" or "_"', fix="shop.orders.>")
    if trigger.stream is not None:
        at = (*trigger.at, "stream")
        if not _STREAM.fullmatch(trigger.stream):
            report.add("bad-value", at, 'the name of a stream has no spaces, dots, slashes, "*" and ">"')
        elif is_own and trigger.stream.startswith(("NOETL_", "OBJ_")):
            report.add("bad-value", at, f'the stream "{trigger.stream}" belongs to NoETL')
    elif trigger.deliver != "new":
        report.add("no-effect", (*trigger.at, "deliver"), '"deliver" has an effect only with "stream"', key=True)
    entry = next((each for each in playbook.keychain if each.name == trigger.auth), None)
    if trigger.auth is not None and entry is None:
        report.add("unknown-credential", (*trigger.at, "auth"), f'the keychain has no entry "{trigger.auth}"')
    elif entry is not None and entry.kind != "nats_credential":
        message = f'"{entry.name}" has the kind "{entry.kind}", and a trigger needs "nats_credential"'
        report.add("bad-value", (*trigger.at, "auth"), message)


def _value(value: JSON, scopes: tuple[str, ...], path: Path, report: ProblemReport) -> Value:
    def compile_one(text: str, at: Path) -> Template | None:
        try:
            template = compile_template(text)
        except BadTemplate as error:
            for fault in error.faults:
                report.add(fault.code, (*path, *at), fault.message, word=fault.needle, line=fault.line, fix=fault.fix)
            return None
        for read in template.reads:
            root = str(read.path[0])
            if root not in scopes:
                message = f'"{root}" is unknown here: a trigger reads {" and ".join(scopes)}'
                report.add("unknown-name", (*path, *at), message, word=root)
        return template

    return build_value(value, compile_one)
