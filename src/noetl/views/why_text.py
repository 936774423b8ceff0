"""The text of an answer to "why": lines that explain what happened to a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl.escape import one_line
from noetl.net.describe import count
from noetl.output import Failure
from noetl.views.why import ArcCheck, CallWhy, GuardCheck, RunWhy, SeenValue, TokenRoute, TokenWhy, Why, WhySource


def why_lines(why: Why) -> list[str]:
    """Lines; details are indented below."""
    lines = [_head(why)]
    for run in why.runs:
        lines += [run.id, *_indented(_run(run))]
    for token in why.tokens:
        lines += _token(token)
    for way in why.ways:
        lines += _way(way)
    return lines


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _head(why: Why) -> str:
    if why.ran:
        left_out = "" if why.ran == len(why.runs) else f"; these are the last {len(why.runs)}"
        return f'"{why.step}" ran {count(why.ran, "time")}{left_out}'
    if why.tokens:
        return f'"{why.step}" did not run: {count(len(why.tokens), "token")} arrived, but none started a run'
    return f'"{why.step}" did not run: {why.unreached or "no token reached it"}'


def _run(run: RunWhy) -> Iterator[str]:
    for source in run.sources:
        yield from _source(source)
    if run.called_by is not None:
        yield f"called by {run.called_by}"
    if run.compensates is not None:
        yield f"undoes {run.compensates}, because the execution has failed or was cancelled"
    if run.retry_of is not None:
        yield f"retries {run.retry_of}"
    if run.waited:
        yield "waited: its token was not admitted immediately"
    yield from _admission(run.admission)
    yield from _seen(run.input, "input ")
    if run.iterations is not None:
        items, succeeded, failed = run.iterations
        yield f"loop over {count(items, 'item')}: {succeeded:,} succeeded, {failed:,} failed"
    if run.kept:
        yield f"kept from {run.kept_from}, not run again: {count(run.kept, 'call')}"
    if run.calls_left_out:
        yield f"{count(run.calls_left_out, 'earlier call')}"
    for change in run.changes:
        yield f"changed by hand: {one_line(change)}"
    for call in run.calls:
        yield _call(call)
    yield from _end(run)


def _end(run: RunWhy) -> Iterator[str]:
    if run.ended is None:
        if run.running is not None:
            yield f"runs the task {one_line(run.running)}"
        else:
            yield f"waits {run.waits_for}" if run.waits_for else "has not ended"
        return
    yield f"ended with {run.ended}{_because(run.error)}"
    if run.routing_error is not None:
        yield f"could not be routed{_because(run.routing_error)}"
    for arc in run.arcs:
        yield _arc(arc)
        yield from _indented(_seen(arc.seen if arc.held is not None else ()))
    if run.undone_by is not None:
        yield f"undone by {run.undone_by}"


def _because(error: Failure | None) -> str:
    return "" if error is None else f": {error.kind}: {one_line(error.message)}"


def _source(source: WhySource) -> Iterator[str]:
    if source.run is None:
        yield f"started by token {source.token}, which the request created"
        return
    yield f"started by token {source.token}, which {source.run} created"
    if source.arc is not None:
        yield from _indented((_arc(source.arc), *_indented(_seen(source.arc.seen))))


def _arc(arc: ArcCheck) -> str:
    text = f"arc {arc.place + 1} to {arc.to}"
    text += "" if arc.when is None else f" when {arc.when}"
    if arc.held is None:
        return f"{text}: not evaluated{f', because {arc.why}' if arc.why else ''}"
    return f"{text}: {'no guard' if arc.when is None else _answer(arc.held)}"


def _seen(seen: Iterable[SeenValue], before: str = "") -> Iterator[str]:
    for each in seen:
        value = "is undefined" if each.value == "undefined" else f"= {each.value}"
        yield f"{before}{one_line(each.path)} {value}"


def _admission(guards: tuple[GuardCheck, ...]) -> Iterator[str]:
    for guard in guards:
        verb = "admit" if guard.allow else "wait"
        text = f"else {verb}" if guard.when is None else f"{verb} when {guard.when}"
        yield f"admission: {text}: {_answer(guard.held)}"
        yield from _indented(_seen(guard.seen))


def _answer(held: bool | None) -> str:
    if held is None:
        return "not evaluated"
    return "true" if held else "false"


def _call(call: CallWhy) -> str:
    text = f"{call.id} {one_line(call.task)}: {call.status}"
    text += f", attempt {call.attempt}" if call.attempt > 1 else ""
    text += f", {call.tries} tries" if call.tries > 1 else ""
    text += f", {call.directive}"
    text += "" if call.rule is None else f" by the rule “{call.rule}”"
    return text + _because(call.error)


def _token(token: TokenWhy) -> Iterator[str]:
    first, *more = _source(token.source)
    yield first.removeprefix("started by ")
    yield from more
    yield from _indented(_why_it_waits(token))


def _why_it_waits(token: TokenWhy) -> Iterator[str]:
    if token.error is not None:
        yield f"its admission could not be evaluated{_because(token.error)}"
        return
    if token.join:
        yield "has arrived at a join and waits for other tokens"
        yield from _indented(token.held_by)
    yield from _admission(token.admission)
    if not token.join and token.admission and not any(each.held for each in token.admission):
        yield "no rule is true, so the token waits"


def _way(way: TokenRoute) -> Iterator[str]:
    text = f"after {way.run}, " if way.run else ""
    text += f"arc {way.arc.place + 1} of {way.step}"
    text += "" if way.arc.when is None else f" when {way.arc.when}"
    yield f"{text}: {way.why}"
    if way.arc.held is not None:
        yield from _indented(_seen(way.arc.seen))
