"""Random executable playbooks, and the outputs of their calls: the same call has the same output.

A *calm* playbook has no races: its result does not depend on the order of reports. A wild one may have races.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from hypothesis import strategies as st

from noetl.output import JSON, Failure, Output
from tests.playbooks import kinds

NUMBER = "{{ output.data.n | default(1) }}"
FAILED = "{{ event.name == 'step.failed' }}"
WORKLOAD = {"items": [3, 1, 2], "table": {"a": 1, "b": 2}, "one": 1}
# The expression that a task writes to ctx, by the reducer that folds it.
REDUCED = {
    "sum": NUMBER,
    "min": NUMBER,
    "max": NUMBER,
    "count": NUMBER,
    "append": NUMBER,
    "extend": "{{ [output.data.n | default(1)] }}",
    "merge": "{{ {'k': output.data.n | default(1)} }}",
    "union": NUMBER,
    "any": "{{ output.data.more | default(false) }}",
    "all": "{{ output.data.more | default(true) }}",
    "first": NUMBER,
    "last": NUMBER,
}
# Initial values in ctx for the reducers.
BEFORE: dict[str, JSON] = {
    "append": [0], "extend": [0], "union": [0], "merge": {"before": 1}, "any": False, "all": True
}  # fmt: skip
# The items of loops, and their number.
ITEMS: tuple[tuple[JSON, int], ...] = (
    ("{{ workload.items }}", 3),
    ([1, 2], 2),
    ("{{ range(5) }}", 5),
    ("{{ workload.table }}", 2),
    ([], 1),
)
CALLS_MAX = 40  # of one run, approximately: nested loops with jumps grow fast


class Executable(NamedTuple):
    document: dict[str, JSON]
    calm: bool  # its status and ctx do not depend on the order of reports
    steady: bool  # nor does its output: it has no branches, and no parallel loop that stops early


class CallOutputs(NamedTuple):
    """The outputs of calls. An output depends only on the call."""

    seed: int
    failing: int  # failures in 100 calls

    def answer(self, frame: str, task: str, entry: int, attempt: int) -> Output:
        number = crc32(f"{self.seed}/{frame}/{task}/{entry}/{attempt}".encode())
        # Later tasks fail more often, when there is state that a bug could lose.
        if number % 100 < self.failing * (1 if task == "t0" else 2):
            kind = ("http", "timeout", "python")[number // 100 % 3]
            error = Failure(kind=kind, message=f"{task} failed", retryable=number % 2 == 0)
            return Output(status="error", error=error, own={"http": {"status": 500}})
        number //= 100
        data: tuple[JSON, ...] = (None, number % 5, [number % 3], "text")
        if number % 8 < len(data):
            return Output(data=data[number % 8])
        return Output(data={"n": number // 8 % 10, "more": number % 3 == 0})


CALL_OUTPUTS = st.builds(CallOutputs, st.integers(0, 2**16), st.sampled_from([0, 10, 20, 30]))


class _Part(NamedTuple):
    """A generated pipeline, and the ctx paths that it and its blocks write, with their reducers."""

    body: dict[str, JSON]
    writes: dict[str, str]
    calls: int  # approximately


class _Maker:
    def __init__(self, draw: st.DrawFn, *, calm: bool) -> None:
        self.draw, self.calm = draw, calm
        self.steady = True
        self.forked = False  # whether the current step is in a branch
        self.blocks: dict[str, _Part] = {}
        self.steps: list[dict[str, JSON]] = []
        self.writes: dict[str, str] = {}  # of all pipelines

    def often(self) -> bool:
        return self.draw(st.integers(0, 2)) > 0

    def now_and_then(self, of: int = 4) -> bool:
        return self.draw(st.integers(1, of)) == of // 2 + 1  # Hypothesis prefers the bounds

    def one(self, *options: JSON) -> JSON:
        return self.draw(st.sampled_from(options))

    def pipeline(self, owner: str, *, lap: str) -> _Part:
        """Tasks and the loops around them. `lap` is a guard that may become true later."""
        depth = self.draw(st.sampled_from([0, 0, 1, 1, 1, 2]))
        writes: dict[str, str] = {}
        names = [f"t{number}" for number in range(self.draw(st.integers(1, 3)))]
        scope = "iter" if depth else "step"
        parallel = [self.often() for _ in range(depth)]
        tasks = [self._task(owner, name, names, scope, writes, lap) for name in names]
        calls = sum(self.blocks[each["block"]].calls if "block" in each else 1 for each in tasks)
        calls *= 3 ** str(tasks).count("'jump'")
        if not any(parallel) and self.often():  # a count that continues from iteration to iteration
            tally = f"ctx.{owner}_tally"
            tasks[0].setdefault("set", {})[tally] = f"{{{{ ({tally} | default(0)) + 1 }}}}"
            writes[tally] = "max"
        body: dict[str, JSON] = {"tool": tasks}
        if depth:
            loops = []
            for place, each in enumerate(parallel):
                items, count = self.one(*(item for item in ITEMS if item[1] == 1 or item[1] * calls <= CALLS_MAX))
                loops.append(self._loop(place, items, each, writes))
                calls *= count
            body["loop"] = loops if depth > 1 else loops[0]
            if self.often():
                policy: dict[str, JSON] = {"mode": "best_effort"}
                if self.now_and_then():
                    policy["tolerate"] = self.one(1, "50%")
                body["spec"] = {"policy": {"failure": policy}}
                self.steady = self.steady and "tolerate" not in policy
            elif any(parallel):
                self.steady = False
        self.writes.update(writes)
        return _Part(body, writes, calls)

    def _loop(self, place: int, items: JSON, parallel: bool, writes: dict[str, str]) -> dict[str, JSON]:
        if not self.calm and self.now_and_then(30):
            items = "{{ workload.one }}"
        made: dict[str, JSON] = {"in": items, "iterator": f"item_{place}"}
        if parallel:
            spec: dict[str, JSON] = {"mode": "parallel", "max_in_flight": self.one(1, 2, 3, 10)}
            reduce = {path: name for path, name in writes.items() if self.calm or not self.now_and_then()}
            if reduce:
                spec["policy"] = {"reduce": reduce}
            made["spec"] = spec
        return made

    def _task(
        self, owner: str, name: str, names: list[str], scope: str, writes: dict[str, str], lap: str
    ) -> dict[str, JSON]:
        callable_ = [
            each
            for each, part in self.blocks.items()
            if part.calls < CALLS_MAX and not (self.calm and self.forked and part.writes)
        ]
        kinds_ = ["python", "python", "noop", "playbook", *["workbook"] * (2 if callable_ else 0)]
        if "wait" in kinds():
            kinds_.append("wait")
        made: dict[str, JSON] = {"name": name, "kind": self.one(*kinds_)}
        match made["kind"]:
            case "python":
                made["code"] = "result = 1"
            case "playbook":
                made["path"] = "some/child"
            case "workbook":
                made["block"] = self.one(*callable_)
                writes.update(self.blocks[made["block"]].writes)
            case "wait":
                made["input"] = self.one({"seconds": 5}, {"signal": "go"})
        if made["kind"] not in ("wait", "workbook") and self.often():
            made["input"] = {
                "n": self.one(1, "{{ _attempt }}", "{{ _prev }}", "{{ ctx.seen | default(0) }}" if lap else 2)
            }
        found: dict[str, JSON] = {}
        if self.often():
            found[f"{scope}.last"] = self.one(NUMBER, "{{ output.data }}", "{{ _task }}")
        if self.now_and_then(2):
            reducer = self.one(*REDUCED)
            found[f"ctx.{owner}_{reducer}"] = REDUCED[reducer]
            writes[f"ctx.{owner}_{reducer}"] = reducer
        if found:
            made["set"] = found
        if policy := self._policy(name, names, scope):
            made["spec"] = {"policy": policy}
        return made

    def _policy(self, name: str, names: list[str], scope: str) -> dict[str, JSON] | None:
        goes_on = {"else": {"then": {"do": "continue"}}}
        match self.one("none", "none", "none", "retry", "continue", "break", "fail", "jump", "skip", "unmatched"):
            case "retry":
                then: dict[str, JSON] = {"do": "retry", "attempts": self.one(1, 2, 3)}
                if self.often():
                    then |= {
                        "delay": self.one(0, 1, 30),
                        "backoff": self.one("fixed", "linear", "exponential"),
                    }
                return {"rules": [{"when": "{{ output.status == 'error' }}", "then": then}, goes_on]}
            case "continue":
                return {"rules": [goes_on]}
            case "break" | "fail" as do:
                when = "{{ (output.data.n | default(5)) > 5 }}"
                return {"rules": [{"when": when, "then": {"do": do}}, goes_on]}
            case "jump":
                count = f"{scope}.jumps_of_{name}"
                then = {
                    "do": "jump",
                    "to": self.one(*names[: names.index(name) + 1]),
                    "set": {count: f"{{{{ ({count} | default(0)) + 1 }}}}"},
                }
                when = f"{{{{ ({count} | default(0)) < 2 and output.status == 'ok' }}}}"
                return {"rules": [{"when": when, "then": then}, goes_on], "on_unmatched": "fail"}
            case "skip":
                guards = ["{{ _prev is none }}", "{{ _task == 't1' }}"]
                if scope == "iter":
                    guards.append("{{ iter.index % 2 == 1 }}")
                return {"rules": [{"when": self.one(*guards), "then": {"do": "skip"}}]}
            case "unmatched":
                when = "{{ output.data.more | default(false) }}"
                return {
                    "rules": [{"when": when, "then": {"do": "break"}}],
                    "on_unmatched": self.one("fail", "continue"),
                }
        return None

    def block(self) -> None:
        name = f"b{len(self.blocks)}"
        part = self.pipeline(name, lap="")
        if not part.writes and not self.calm and self.now_and_then():
            part.body["set"] = {f"ctx.{name}_last": NUMBER}
            part.writes[f"ctx.{name}_last"] = "last"
        if self.now_and_then():
            part.body["input"] = {"n": 1}
        self.blocks[name] = part

    def step(self, name: str) -> dict[str, JSON]:
        lap = "" if self.calm else "ctx.seen"
        made: dict[str, JSON] = {"step": name}
        if self.now_and_then(8):  # a step without tasks, where branches join and split
            self.steps.append(made)
            return made
        made |= self.pipeline(name, lap=lap).body
        if self.often():
            made["set"] = {f"ctx.{name}_n": NUMBER}
        if not self.calm and self.now_and_then():
            made.setdefault("set", {})["ctx.seen"] = "{{ (ctx.seen | default(0)) + 1 }}"
        if self.now_and_then():
            made["input"] = {"n": f"{{{{ ctx.{name}_n | default(0) }}}}", "all": "{{ workload.items }}"}
        if not self.calm and self.now_and_then(8):
            policy = made.setdefault("spec", {}).setdefault("policy", {})
            policy["lifecycle"] = {self.one("timeout_s", "deadline_s"): self.one(5, 60)}
        if not self.calm and self.now_and_then(3):  # the order of completion decides the order of compensations
            names = [f"u{number}" for number in range(self.draw(st.integers(1, 2)))]
            made["compensate"] = {"tool": [self._task(name, each, names, "step", {}, lap) for each in names]}
        self.steps.append(made)
        return made

    def plain(self, name: str, before: str, after: str) -> None:
        """One step with its arcs: to the next step, back, by a choice, by a template, after a failure."""
        made = self.step(name)
        arcs: list[dict[str, JSON]] = []
        if self.now_and_then(3):
            arcs.append({"step": self.one(after, "end"), "when": FAILED})
        if self.now_and_then(3):
            laps = f"ctx.{name}_laps"
            again = {"step": self.one(name, before), "when": f"{{{{ ({laps} | default(0)) < 2 }}}}"}
            arcs.append({**again, "set": {laps: f"{{{{ ({laps} | default(0)) + 1 }}}}"}})
        match self.one("straight", "straight", "choice", "template"):
            case "choice":
                arcs.append({"step": after, "when": "{{ (output.data.n | default(1)) < 5 }}"})
                if self.often():
                    arcs.append({"step": "end"})
            case "template":
                to = f"{{{{ '{after}' if (output.data.n | default(1)) < 5 else 'end' }}}}"
                arcs.append({"step": to, "to": [after, "end"]})
            case _:
                arcs.append({"step": after})
        made["next"] = {"arcs": arcs}
        if not self.calm and self.now_and_then(6):
            made["next"]["spec"] = {"mode": "inclusive"}

    def fork(self, name: str, after: str) -> None:
        """Parallel branches with their join; some wait for a condition that another branch sets."""
        self.steady = False
        head = self.step(name)
        self.forked = True
        meeting = f"{name}_join"
        branches = [f"{name}_{letter}" for letter in "abc"[: self.draw(st.integers(2, 3))]]
        arcs: list[dict[str, JSON]] = [{"step": each} for each in branches]
        if self.now_and_then(3):
            arcs[-1]["when"] = "{{ (output.data.n | default(1)) < 5 }}"
        head["next"] = {"spec": {"mode": "inclusive"}, "arcs": arcs}
        gated = self.often()
        for place, each in enumerate(branches):
            made = self.step(each)
            leads: list[dict[str, JSON]] = [{"step": meeting}]
            if self.now_and_then(3):
                leads.append({"step": meeting, "when": FAILED})
            if gated and place == 0:
                made.setdefault("set", {})[f"ctx.{name}_open"] = NUMBER
            if gated and place == 1:
                when = f"{{{{ (ctx.{name}_open | default(0)) > {self.one(0, 4)} }}}}"
                policy = made.setdefault("spec", {}).setdefault("policy", {})
                policy["admit"] = {"rules": [{"when": when, "then": {"allow": True}}]}
            made["next"] = {"arcs": leads}
        self.forked = False
        met = self.step(meeting)
        if self.calm or self.often():
            met.setdefault("spec", {}).setdefault("policy", {})["admit"] = {"join": "all"}
        met["next"] = {"arcs": [{"step": after}]}


@st.composite
def executables(draw: st.DrawFn, *, calm: bool) -> Executable:
    maker = _Maker(draw, calm=calm)
    for _ in range(draw(st.sampled_from([0, 1, 2, 2]))):
        maker.block()
    names = ["start", *(f"s{number}" for number in range(1, draw(st.sampled_from([1, 2, 3, 4, 4]))))]
    forks = [draw(st.integers(0, 2)) == 2 for _ in names]
    for place, name in enumerate(names):
        after = names[place + 1] if place + 1 < len(names) else "end"
        # An arc back into a branch would duplicate tokens, which is a race.
        before = names[place - 1] if place and not (calm and forks[place - 1]) else name
        if forks[place]:
            maker.fork(name, after)
        else:
            maker.plain(name, before, after)
    if maker.often():
        earlier = {path: BEFORE.get(reducer, 100) for path, reducer in maker.writes.items()}
        arcs = [{"step": "start", "set": earlier}] if earlier else [{"step": "start"}]
        maker.steps.insert(0, {"step": "before", "next": {"arcs": arcs}})
    document: dict[str, JSON] = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "random", "path": "random/executable"},
        "workload": WORKLOAD,
        "workflow": maker.steps,
        "executor": {"spec": {"entry_step": maker.steps[0]["step"]}},
    }
    if maker.blocks:
        document["workbook"] = {name: part.body for name, part in maker.blocks.items()}
    return Executable(document, calm, maker.steady)
