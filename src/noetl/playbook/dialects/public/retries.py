"""`retry` blocks of tasks and steps become rules (§11)."""

from __future__ import annotations

import re

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import LayoutEntry, Leaf, List, Map, Node, item, plain, quoted, table
from noetl.playbook.dialects.public.book import PAGES, Book, child, discard, new, text_of
from noetl.playbook.dialects.public.guards import inner_of
from noetl.playbook.dialects.template_tokens import parse

_ATTEMPTS = ("max_attempts", "attempts", "max_retries", "retries")
_DELAY = ("initial_delay", "delay", "backoff_seconds", "delay_seconds", "interval")
_MULTIPLIER = ("backoff_multiplier", "multiplier", "backoff_factor")

_TRANSIENT = frozenset({"timeout", "connection_error", "connection", "network_error", "network"})


def retry_blocks(book: Book) -> None:
    """`retry: {max_attempts: 3, …}` is a rule with `do: retry`."""
    for step in book.owners:
        on_step = step.body.entry("retry")
        tasks = parts.tasks(step.body)
        if on_step is not None and len(tasks) == 1 and tasks[0].body.get("retry") is None:
            step.body.entries.remove(on_step)
            tasks[0].body.entries.append(on_step)
        for task in tasks:
            entry = task.body.entry("retry")
            if entry is not None:
                _block(book, task.body, entry)


def _block(book: Book, body: Map, entry: LayoutEntry) -> None:
    if isinstance(entry.value, Leaf) and entry.value.text.isdigit():
        discard(body, entry)
        action = table(do=plain("retry"), attempts=plain(entry.value.text))
        add_rule(book, body, "output.status == 'error'", action, entry.start)
        return
    if not isinstance(entry.value, Map):
        if parts.is_null(entry.value) or text_of(entry.value) == "false":
            discard(body, entry)
            book.note(entry.start, "dropped", "an empty `retry` has no effect; it was removed")
            return
        book.refuse(
            entry.start, "this `retry` is a list of policies", "write rules with `do: retry` under `spec.policy.rules`"
        )
        return
    settings = entry.value
    if any(settings.get(key) is not None for key in ("on_success", "next_call", "collect")):
        message = "this `retry` repeats after success to read pages"
        book.refuse(entry.start, message, PAGES)
        return
    on_error = settings.map("on_error")
    settings = on_error if on_error is not None else settings
    when = next((text for key in ("retry_when", "when", "condition") if (text := settings.text(key))), None)
    condition = "output.status == 'error'"
    if when is not None:
        found = inner_of(when)
        if found is None:
            book.refuse(
                entry.start, "the condition of this `retry` is not one expression", 'write `"{{ … }}"` around it'
            )
            return
        condition = _in_rule(found)
    codes = settings.get("retry_on_status") or settings.get("retryable_status_codes") or settings.get("status_codes")
    if isinstance(codes, List):
        numbers = ", ".join(text for each in codes.entries if (text := text_of(each.value)))
        condition = f"output.http.status in [{numbers}]"
    action = retry_action(book, settings)
    if when is None and codes is None and _is_transient(settings.get("retry_on")):
        _repeat(book, body, entry, settings, action)
        return
    discard(body, entry)
    add_rule(book, body, condition, action, entry.start)


def _is_transient(node: Node | None) -> bool:
    """Does `retry_on` name only failures that can pass by themselves?"""
    words = {text_of(each.value) for each in node.entries} if isinstance(node, List) else {text_of(node)}
    return words <= _TRANSIENT


def _repeat(book: Book, body: Map, entry: LayoutEntry, settings: Map, action: Map) -> None:
    """`retry_on: [timeout, connection_error]` is `spec.retry`, which repeats only what can be repeated."""
    delay = settings.entry("backoff")
    seconds = text_of(delay.value) if delay is not None else None
    if delay is not None and seconds and action.get("delay") is None and re.fullmatch(r"\d+(\.\d+)?", seconds):
        action.entries.append(new("delay", plain(seconds), delay.start))
    spec = child(body, "spec", entry.start)
    if spec is None or spec.get("retry") is not None:
        book.refuse(entry.start, "`spec.retry` of the task is already there", "keep one of them")
        return
    action.entries = [each for each in action.entries if each.name in ("attempts", "delay", "backoff", "max_delay")]
    discard(body, entry)
    spec.entries.append(new("retry", action, entry.start))
    book.changed()


def retry_action(book: Book, settings: Map) -> Map:
    """`{max_attempts, initial_delay, backoff_multiplier, …}` as the action of a rule."""
    made = table(do=plain("retry"))

    def pick(keys: tuple[str, ...]) -> tuple[str, int] | None:
        for key in keys:
            entry = settings.entry(key)
            text = text_of(entry.value) if entry is not None else None
            if entry is not None and text is not None:
                return text, entry.start
        return None

    attempts = pick(_ATTEMPTS)
    delay = pick(_DELAY)
    multiplier = pick(_MULTIPLIER)
    backoff = settings.text("backoff")
    if attempts is not None:
        made.entries.append(new("attempts", _number(attempts[0]), attempts[1]))
    if delay is not None:
        made.entries.append(new("delay", _number(delay[0]), delay[1]))
    if multiplier is not None or backoff in ("fixed", "linear", "exponential"):
        word = backoff if backoff in ("fixed", "linear", "exponential") else "exponential"
        if multiplier is not None and multiplier[0] in ("1", "1.0"):
            word = "fixed"
        elif multiplier is not None and multiplier[0] not in ("2", "2.0"):
            message = f"the delay doubles with each attempt; the multiplier was {multiplier[0]}"
            book.note(multiplier[1], "backoff-rounded", message)
        made.entries.append(new("backoff", plain(word or "exponential"), -1))
    longest = pick(("max_delay", "max_delay_seconds"))
    if longest is not None:
        made.entries.append(new("max_delay", _number(longest[0]), longest[1]))
    jitter = pick(("jitter",))
    if jitter is not None and jitter[0].lower() != "false":
        made.entries.append(new("jitter", plain("0.5" if jitter[0].lower() == "true" else jitter[0]), jitter[1]))
    return made


def _in_rule(condition: str) -> str:
    """Names of a retry condition: `status_code`, `error`, `success`, `attempt`."""
    names = {
        "status_code": "output.http.status",
        "error": "output.error",
        "success": "(output.status == 'ok')",
        "attempt": "_attempt",
    }
    parsed = parse(f"{{{{ {condition} }}}}")
    made, position, offset = "", 0, 3
    for reading in parsed.readings if parsed is not None else []:
        start = reading.start - offset
        if reading.root in names:
            made += condition[position:start] + names[reading.root]
            position = start + len(reading.root)
    return made + condition[position:]


def _number(text: str) -> Leaf:
    return quoted(text) if "{{" in text else plain(text)


def add_rule(book: Book, task: Map, condition: str, action: Map, start: int) -> None:
    """Add a rule to a task, before its `else`."""
    spec = child(task, "spec", start)
    policy = child(spec, "policy", start) if spec is not None else None
    if policy is None:
        book.refuse(
            start, "`spec` of the task is not a mapping", "write a rule with `do: retry` under `spec.policy.rules`"
        )
        return
    rule = Map(entries=[new("when", quoted(f"{{{{ {condition} }}}}"), start), new("then", action, start)], start=start)
    rules = policy.get("rules")
    if rules is None:
        if policy.get("on_unmatched") is None:
            policy.entries.append(new("on_unmatched", plain("fail"), start))
        policy.entries.append(new("rules", List(entries=[item(rule)]), start))
    elif isinstance(rules, List):
        position = next(
            (
                index
                for index, each in enumerate(rules.entries)
                if isinstance(each.value, Map) and each.value.entry("else") is not None
            ),
            len(rules.entries),
        )
        rules.entries.insert(position, item(rule))
    book.changed()
