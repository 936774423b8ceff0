"""Random pipelines with `choose`, `while` and `until` run the tasks that a direct reading of the text says (003 §14).

Every task appends its name to a trace. Guards read the length of the trace, or the data of the task before.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from noetl.output import JSON
from noetl.playbook.reader import read
from noetl.playbook.write import write
from noetl.testing import runtime
from tests.playbooks import kinds

HEAD: dict[str, JSON] = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "t", "path": "t"}}
FORMS = ("plain", "rules", "unmatched", "matched", "skip")


class Guard(NamedTuple):
    modulo: int
    rest: int
    by_data: bool  # it reads the data of the task before, which contains the length of the trace

    def template(self) -> str:
        length = "(output.data or {}).n | default(0)" if self.by_data else "step.trace | length"
        return f"{{{{ ({length}) % {self.modulo} == {self.rest} }}}}"


class Item(NamedTuple):
    form: str  # one of FORMS, or choose, while, until
    named: bool = True
    branches: tuple[tuple[Guard | None, tuple[Item, ...]], ...] = ()  # None: else
    passes: int = 0


GUARDS = st.builds(Guard, st.integers(2, 3), st.integers(0, 2), st.booleans())
TASKS = st.builds(Item, st.sampled_from(FORMS), st.booleans())


def _inside(items: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    bodies = st.lists(items, min_size=1, max_size=3).map(tuple)
    branches = st.lists(st.tuples(GUARDS, bodies), min_size=1, max_size=3)
    otherwise = st.lists(st.tuples(st.none(), bodies), max_size=1)
    choose = st.tuples(branches, otherwise).map(lambda both: Item("choose", branches=(*both[0], *both[1])))
    loop = st.tuples(st.sampled_from(["while", "until"]), bodies, st.integers(0, 2))
    return choose | loop.map(lambda each: Item(each[0], branches=((None, each[1]),), passes=each[2]))


PIPELINES = st.lists(st.recursive(TASKS, _inside, max_leaves=8), min_size=1, max_size=4)


class Writer:
    """The items as a document. Names and counters are numbered in the order of the text."""

    def __init__(self) -> None:
        self.numbers = count()
        self.counters = count()

    def items(self, items: Any) -> list[JSON]:
        return [self.item(each) for each in items]

    def item(self, item: Item) -> JSON:
        if item.form in FORMS:
            return self.task(f"t{next(self.numbers)}", item)
        if item.form == "choose":
            branches = [
                {"else": {"then": self.items(inside)}}
                if guard is None
                else {"when": guard.template(), "then": self.items(inside)}
                for guard, inside in item.branches
            ]
            return {"choose": branches}
        counter = f"step.c{next(self.counters)}"
        counts = {"kind": "noop", "set": {counter: f"{{{{ {counter} | default(0) + 1 }}}}"}}
        test = "<" if item.form == "while" else ">"
        when = f"{{{{ ({counter} | default(0)) {test} {item.passes} }}}}"
        return {item.form: {"when": when, "tool": [*self.items(item.branches[0][1]), counts]}}

    def task(self, name: str, item: Item) -> JSON:
        trace = f"{{{{ step.trace + ['{name}'] }}}}"
        task: dict[str, JSON] = {"kind": "noop", "input": {"n": "{{ step.trace | length }}"}}
        rules: list[JSON] = []
        policy: dict[str, JSON] = {"rules": rules}
        odd = "{{ step.trace | length is odd }}"
        match item.form:
            case "rules":
                rules += [{"when": odd, "then": {"do": "continue"}}, {"else": {"then": {"do": "continue"}}}]
            case "unmatched":
                rules.append({"when": "{{ output.status == 'error' }}", "then": {"do": "fail"}})
            case "matched":
                rules.append({"when": odd, "then": {"do": "continue"}})
                policy["on_unmatched"] = "fail"
            case "skip":
                rules.append({"when": odd, "then": {"do": "skip"}})
        return {
            **({"name": name} if item.named else {}),
            **task,
            "set": {"step.trace": trace},
            "spec": {"policy": policy} if rules else {},
        }


class Reader:
    """What the items do, item by item."""

    def __init__(self) -> None:
        self.trace: list[str] = []
        self.data = 0
        self.counts: dict[int, int] = {}

    def run(self, items: Any, names: dict[int, str], counters: dict[int, int]) -> None:
        for item in items:
            if item.form in FORMS:
                if item.form == "skip" and len(self.trace) % 2:
                    continue
                self.data = len(self.trace)
                self.trace.append(names[id(item)])
            elif item.form == "choose":
                for guard, inside in item.branches:
                    if guard is None or (self.data if guard.by_data else len(self.trace)) % guard.modulo == guard.rest:
                        self.run(inside, names, counters)
                        break
            else:
                self.repeat(item, names, counters)

    def repeat(self, item: Item, names: dict[int, str], counters: dict[int, int]) -> None:
        counter = counters[id(item)]
        while item.form == "until" or self.counts.get(counter, 0) < item.passes:
            self.run(item.branches[0][1], names, counters)
            self.counts[counter] = self.counts.get(counter, 0) + 1
            if item.form == "until" and self.counts[counter] > item.passes:
                return


def copied(item: Item) -> Item:
    """Equal items of a random tree may be one object: give each its own identity."""
    return Item(
        item.form,
        item.named,
        tuple((guard, tuple(map(copied, inside))) for guard, inside in item.branches),
        item.passes,
    )


def walk(items: Any) -> Iterator[Item]:
    """In the order in which the writer numbers them."""
    for item in items:
        yield item
        for _, inside in item.branches:
            yield from walk(inside)


def document(items: list[Item]) -> str:
    begin = {"name": "begin", "kind": "noop", "set": {"step.trace": []}}
    end = {
        "name": "end",
        "kind": "noop",
        "input": {"trace": "{{ step.trace }}", "data": "{{ (_prev or {}).n | default(0) }}"},
    }
    return json.dumps({**HEAD, "workflow": [{"step": "start", "tool": [begin, *Writer().items(items), end]}]})


@given(PIPELINES.map(lambda items: [copied(each) for each in items]))
def test_branches_and_loops_run_what_the_text_says(items: list[Item]) -> None:
    tasks = [item for item in walk(items) if item.form in FORMS]
    loops = [item for item in walk(items) if item.form in ("while", "until")]
    expected = Reader()
    names = {id(item): f"t{place}" for place, item in enumerate(tasks)}
    expected.run(items, names, {id(item): place for place, item in enumerate(loops)})
    text = document(items)
    assert _run(text) == {"trace": expected.trace, "data": expected.data}
    found = read(text, kinds())
    assert found.playbook is not None
    canonical = write(found.playbook)
    assert "choose" not in canonical.replace("choose_", "")
    assert _run(canonical) == {"trace": expected.trace, "data": expected.data}


def _run(text: str) -> JSON:
    async def work() -> JSON:
        async with runtime({"t": text}) as memory:
            return (await memory.run("t")).output

    return asyncio.run(work())
