"""Short descriptions of rules, guards, loops and values for people. Independent of any output format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.escape import one_line, shorten
from noetl.output import JSON
from noetl.playbook.model import (
    DEFAULT_MAX_IN_FLIGHT,
    RETRY_ATTEMPTS,
    Guard,
    InputField,
    Loop,
    Pipeline,
    Policy,
    Rule,
    When,
)
from noetl.template.compile import is_template

VALUE_MAX = 60  # characters of a value that are displayed

_SOLE = re.compile(r"\{\{-?(?P<inside>.*?)-?\}\}\Z", re.DOTALL)
_NAMED_EVENT = r"\bevent\.name == (['\"])(?P<name>[a-z.]+)\1"
_OUTPUT_IS = r"\boutput\.status == (['\"])(?P<status>ok|error)\1"
_EVENTS = {"step.failed": "failed", "step.done": "done", "loop.done": "loop done"}


def expression(text: str) -> str:
    """A template without its braces when it is exactly one expression, in one line."""
    text = text.strip()
    found = _SOLE.match(text)
    if found and "{{" not in found["inside"] and "}}" not in found["inside"]:
        return one_line(found["inside"])
    return one_line(text)


def guard(when: When | None) -> str | None:
    """None: it always holds."""
    if when is None or when is True:
        return None
    return "false" if when is False else expression(when)


def short_guard(words: str, length: int) -> str:
    """For a label: common conditions as one word, others shortened."""
    words = re.sub(_NAMED_EVENT, lambda found: _EVENTS.get(found["name"], found["name"]), words)
    return shorten(re.sub(_OUTPUT_IS, lambda found: found["status"], words), length)


def value(data: JSON) -> str:
    """A value in one short line."""
    match data:
        case str() if is_template(data):
            return shorten(expression(data), VALUE_MAX)
        case str():
            return shorten(f'"{one_line(data)}"', VALUE_MAX)
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[data]
        case list() if data and not all(isinstance(each, dict | list) for each in data):
            return shorten(f"[{', '.join(value(each) for each in data[:8])}]", VALUE_MAX)
        case list() if data:
            return count(len(data), "item")
        case list():
            return "[]"
        case dict() if data:
            return shorten(f"{{{', '.join(one_line(str(key)) for key in data)}}}", VALUE_MAX)
        case dict():
            return "{}"
    return str(data)


def limits(field: InputField) -> Iterator[str]:
    """What an input allows beside its type."""
    unit = {"string": " characters", "list": " items", "map": " keys"}.get(field.type, "")
    if field.enum is not None:
        yield f"one of {', '.join(map(value, field.enum))}"
    if field.min is not None:
        yield f"at least {field.min}{unit}"
    if field.max is not None:
        yield f"at most {field.max}{unit}"
    if field.pattern is not None:
        yield shorten(f"matches {one_line(field.pattern)}", VALUE_MAX)
    if field.format is not None:
        yield field.format


def type_of(data: JSON) -> str:
    match data:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
    return "mapping"


def count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def seconds(length: float | str) -> str:
    return f"({expression(length)}) s" if isinstance(length, str) else f"{length:g} s"


def rule(each: Rule) -> str:
    """`retry (10 calls in all, exponential from 2 s) when …`; `else continue; sets ctx.n`."""
    said = _directive(each)
    when = guard(each.when)
    if each.when is None:
        said = f"else {said}"
    else:
        said += " always" if when is None else f" when {when}"
    return f"{said}; sets {', '.join(map(one_line, each.set))}" if each.set else said


def _directive(each: Rule) -> str:
    match each.do:
        case "retry":
            return f"retry ({', '.join(_retry(each))})"
        case "jump":
            return f"jump to {one_line(each.to or '?')}"
        case "break":
            return "break: leave the pipeline"
        case "skip":
            return "skip the task"
        case "fail" if each.message is not None:
            return f"fail with {value(each.message)}"
    return each.do


def _retry(each: Rule) -> list[str]:
    attempts = RETRY_ATTEMPTS if each.attempts is None else each.attempts
    said = f"({expression(attempts)})" if isinstance(attempts, str) else str(attempts)
    words = [f"{said} calls in all", *_delay(each.delay, each.backoff, each.max_delay)]
    if each.jitter and each.delay is not None:
        words.append(f"±{each.jitter * 100:g} %")
    return words


def _delay(delay: float | str | None, backoff: str | None, max_delay: float | str | None) -> list[str]:
    if delay is None:
        return ["immediately"]
    growing = backoff in ("linear", "exponential")
    words = [f"{backoff} from {seconds(delay)}" if growing else f"after {seconds(delay)}"]
    return words if max_delay is None else [*words, f"at most {seconds(max_delay)}"]


def tries(options: JSON) -> str | None:
    """`up to 5 tries, exponential from 1 s, after errors of kind http`; None: a call is made once (D92)."""
    if not isinstance(options, dict) or (attempts := options.get("attempts", RETRY_ATTEMPTS)) < 2:
        return None
    words = [f"up to {attempts} tries"]
    words += _delay(options.get("delay"), options.get("backoff"), options.get("max_delay"))
    on = options.get("on")
    words.append("after retryable errors" if on is None else f"after errors of kind {', '.join(map(one_line, on))}")
    return ", ".join(words)


def unmatched(policy: Policy | None) -> str | None:
    """What happens when no rule matches; None when one always does."""
    if policy is None or all(each.do == "skip" for each in policy.rules):
        return None  # The default for every task (D22): ok continues, an error fails.
    if any(each.when in (None, True) for each in policy.rules):
        return None
    if policy.on_unmatched == "fail":
        return "otherwise an error fails, ok continues"
    return "otherwise continue, errors too"


def admission(guards: tuple[Guard, ...]) -> list[str]:
    """The first guard that holds decides; when none does, the token waits (D35)."""
    lines = []
    for each in guards:
        verb = "admit" if each.allow else "wait"
        when = guard(each.when)
        lines.append(f"else {verb}" if each.when is None else f"{verb} {'always' if when is None else f'when {when}'}")
    if guards and not any(each.when in (None, True) for each in guards):
        lines.append("else wait")
    return lines


def loop(each: Loop) -> str:
    """`for each city in workload.cities, parallel, 3 at a time`."""
    items = expression(each.items) if isinstance(each.items, str) else value(each.items)
    words = [f"for each {one_line(each.iterator) or '?'} in {items}", each.mode]
    if each.mode == "parallel":
        at_once = DEFAULT_MAX_IN_FLIGHT if each.max_in_flight is None else each.max_in_flight
        words.append(f"{expression(str(at_once))} at a time")
    if each.exec is not None:
        words.append(each.exec)
    words += [f"{one_line(target)} by {reducer}" for target, reducer in each.reduce.items()]
    return ", ".join(words)


def policy(owner: Pipeline) -> list[str]:
    """Time limits, failure mode and limits, where the author set them."""
    lifecycle, failure, limits = (owner.policy.get(key) or {} for key in ("lifecycle", "failure", "limits"))
    lines = []
    if "timeout_s" in lifecycle:
        lines.append(f"fails with kind timeout {seconds(lifecycle['timeout_s'])} after a worker has begun it")
    if "deadline_s" in lifecycle:
        lines.append(f"fails with kind timeout {seconds(lifecycle['deadline_s'])} after its token was made")
    if failure.get("mode") == "best_effort":
        tolerated = f"; at most {failure['tolerate']} may fail" if "tolerate" in failure else ""
        lines.append(f"best effort: failed iterations do not stop the others{tolerated}")
    elif failure.get("mode") == "fail_fast":
        lines.append("fail fast: the first failed iteration stops the loop")
    lines += [f"limit {key}: {each}" for key, each in limits.items()]
    if limit := owner.policy.get("limit"):
        lines.append(shared_limit(limit, "run"))
    return lines


def shared_limit(limit: dict[str, JSON], what: str) -> str:
    """`at most 3 calls at once and 100 in 60 s for each shop, across all executions`."""
    words = [] if "in_flight" not in limit else [f"{count(limit['in_flight'], what)} at once"]
    if rate := limit.get("rate"):
        words.append(f"{count(rate.get('count', 0), what)} in {seconds(rate.get('per_s', 0))}")
    text = f"at most {' and '.join(words)} for the key {value(limit.get('key'))}, across all executions"
    return f"{text}; respects Retry-After" if limit.get("respect_retry_after") else text


def concurrency(written: dict[str, JSON]) -> str:
    """`at most 1 execution at once for the key workload.account; others wait`."""
    key = written.get("key")
    shared = "" if key is None else f" for the key {value(key)}"
    then = {"refuse": "others are refused", "replace": "a new one cancels the oldest"}
    return (
        f"at most {count(written.get('limit', 0), 'execution')} at once{shared}; "
        f"{then.get(str(written.get('when_full')), 'others wait')}"
    )
