"""The status of a response: what a step does after a request that failed (§3, §5)."""

from __future__ import annotations

from noetl.playbook.dialects import parts
from noetl.playbook.dialects.layout.tree import Map, leaves, plain, quoted
from noetl.playbook.dialects.public.book import Book, is_template, new, put, text_of
from noetl.playbook.dialects.public.guards import inner_of
from noetl.playbook.dialects.public.retries import add_rule
from noetl.playbook.dialects.template_tokens import ParsedTemplate, PathRead, free_reads, parse


def local_responses(book: Book) -> None:
    """The public command line continues after every response, so a step that asks for the status continues too."""
    for step in book.steps if book.local else []:
        tasks = parts.tasks(step.body)
        asks = any(
            reading.root in ("result", "response", step.name) and reading.path[1:2] in (("status",), ("status_code",))
            for entry in step.body.entries
            if entry.name != "tool"
            for leaf in leaves(entry.value)
            for reading in free_reads(leaf.text)
        )
        if not asks or tasks[-1].kind != "http" or parts.policy(tasks[-1].body) is not None:
            continue
        start = tasks[-1].body.start
        goes_on = Map(entries=[new("do", plain("continue"), start)])
        add_rule(book, tasks[-1].body, "output.status == 'error' and output.http.status is not none", goes_on, start)
        book.note(
            start, "http-failure", "the step asks for the status of the response, so it continues after every one"
        )


def failure_guards(book: Book) -> None:
    """A guard that asks for the status of a failed response is evaluated after the failure too."""
    for step in book.steps if book.public and not book.exact else []:
        tasks = parts.tasks(step.body)
        if not tasks or tasks[-1].kind != "http" or step.body.get("loop") is not None:
            continue
        for arc in parts.arcs(step.body):
            entry = arc.entry("when")
            text = text_of(entry.value) if entry is not None else None
            parsed = parse(text) if text is not None and is_template(text) else None
            if entry is None or parsed is None or not parsed.typed:
                continue
            known = {reading.path[:2] for reading in parsed.readings}
            if {("output", "status"), ("output", "error")} & known or any(path[0] == "event" for path in known):
                continue
            if any(_of_failure(parsed, reading) for reading in parsed.readings):
                condition = f"event.name in ['step.done', 'step.failed'] and ({inner_of(text)})"
                put(entry, quoted(f"{{{{ {condition} }}}}"))
                book.note(entry.start, "http-failure", "the guard is also evaluated after a failed request")


def _of_failure(parsed: ParsedTemplate, reading: PathRead) -> bool:
    """Can the comparison of the status be true for a failed request?"""
    behind = parsed.tokens[reading.after :]
    if reading.path != ("output", "http", "status") or not behind:
        return False
    sign = behind[0].text
    ends = next((index for index, token in enumerate(behind) if token.text in ("]", ")", "and", "or")), len(behind))
    numbers = [int(token.text) for token in behind[:ends] if token.type == "integer"]
    if sign in ("==", "in"):
        return any(number >= 300 for number in numbers)
    return sign in ("!=", ">", ">=", "not") and bool(numbers)
