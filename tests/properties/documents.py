"""Random playbooks: sound documents in canonical form, and the same documents in the v10 dialect."""

from __future__ import annotations

from copy import deepcopy

from hypothesis import strategies as st

from noetl.output import JSON

NAMES = ["fetch", "store", "route", "check", "notify", "clean"]
WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12).filter(
        lambda text: "{" not in text
    ),
    st.sampled_from(
        [
            "on",
            "010",
            "12:30",
            "null",
            "~",
            "1e3",
            "- x",
            "a: b",
            "# c",
            "<<",
            " lead",
            "two\nlines\n",
            "'",
            '"',
        ]
    ),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
GUARDS = st.sampled_from(
    [
        "{{ output.status == 'error' }}",
        "{{ output.status == 'ok' and output.data.alpha | default(false) }}",
        "{{ output.error.retryable | default(false) }}",
        "{{ workload.alpha == 1 }}",
        "{{ (ctx.alpha | default(0)) > 3 }}",
    ]
)
ARC_GUARDS = st.sampled_from(
    [
        "{{ event.name == 'step.failed' }}",
        "{{ event.name == 'step.done' and ctx.alpha | default(0) > 1 }}",
        "{{ workload.alpha == 1 }}",
        "{{ ctx.alpha | default(none) is not none }}",
    ]
)
VALUES = st.one_of(
    DATA,
    st.sampled_from(
        [
            "{{ output.data }}",
            "{{ output.data.beta | default(1) }}",
            "{{ workload.alpha }}",
            "x {{ _attempt }} y",
            "{{ _prev }}",
        ]
    ),
)


def writes(draw: st.DrawFn, scopes: list[str], values: st.SearchStrategy[JSON]) -> dict[str, JSON]:
    targets = st.builds("{}.{}".format, st.sampled_from(scopes), WORDS)
    return draw(st.dictionaries(targets, values, max_size=2))


def rule(draw: st.DrawFn, names: list[str], scopes: list[str]) -> dict[str, JSON]:
    do = draw(st.sampled_from(["continue", "retry", "jump", "break", "fail"]))
    then: dict[str, JSON] = {"do": do}
    if do == "retry":
        then |= draw(
            st.fixed_dictionaries(
                {"attempts": st.integers(1, 9)},
                optional={
                    "backoff": st.sampled_from(["none", "linear", "exponential"]),
                    "delay": st.floats(0, 60),
                },
            )
        )
    if do == "jump":
        then["to"] = draw(st.sampled_from(names))
    if found := writes(draw, scopes, VALUES):
        then["set"] = found
    return then


def task(draw: st.DrawFn, name: str, names: list[str], scopes: list[str]) -> dict[str, JSON]:
    kind = draw(st.sampled_from(["noop", "http", "python", "shell"]))
    made: dict[str, JSON] = {"name": name, "kind": kind}
    match kind:
        case "http":
            made["input"] = {
                "url": "{{ workload.beta }}/x",
                "params": draw(st.dictionaries(WORDS, VALUES, min_size=1, max_size=2)),
            }
        case "python":
            made["code"] = draw(st.sampled_from(["result = 1", "def main(alpha):\n    return {{1: alpha}}\n"]))
            if "main" in made["code"]:
                made["input"] = {"alpha": draw(VALUES)}
        case "shell":
            made["input"] = {"argv": ["echo", draw(WORDS)]}
    spec: dict[str, JSON] = draw(st.fixed_dictionaries({}, optional={"timeout": st.integers(1, 60)}))
    if draw(st.booleans()):
        rules: list[JSON] = [
            {"when": draw(GUARDS), "then": rule(draw, names, scopes)} for _ in range(draw(st.integers(0, 2)))
        ]
        last: dict[str, JSON] = {"do": draw(st.sampled_from(["continue", "fail", "break"]))}
        spec["policy"] = {"rules": [*rules, {"else": {"then": last}}]}
    if spec:
        made["spec"] = spec
    return made


def step(draw: st.DrawFn, name: str, later: list[str]) -> dict[str, JSON]:
    made: dict[str, JSON] = {"step": name}
    scopes = ["ctx"]
    if draw(st.booleans()):
        mode = draw(st.sampled_from(["sequential", "parallel"]))
        made["loop"] = {"in": "{{ workload.gamma }}", "iterator": draw(WORDS)}
        if mode == "parallel":
            made["loop"]["spec"] = {"mode": mode, "max_in_flight": draw(st.integers(1, 50))}
        scopes = ["iter", "ctx"]
    names = [f"task_{number}" for number in range(draw(st.integers(1, 3)))]
    made["tool"] = [task(draw, each, names, scopes) for each in names]
    if draw(st.booleans()):
        made["spec"] = {
            "policy": {"admit": {"rules": [{"when": "{{ workload.alpha == 1 }}", "then": {"allow": True}}]}}
        }
    arcs = []
    for target in draw(st.lists(st.sampled_from([*later, "end"]), max_size=3)):
        arc: dict[str, JSON] = {"step": target}
        if draw(st.booleans()):
            arc["when"] = draw(ARC_GUARDS)
        arcs.append(arc)
    if arcs:
        made["next"] = {"arcs": arcs}
        if draw(st.booleans()):
            made["next"]["spec"] = {"mode": "inclusive"}
    return made


def payload(draw: st.DrawFn, steps: list[dict[str, JSON]]) -> None:
    """Give some steps a value from their only incoming arc: `set` on the arc, `input` on the step."""
    arcs = [arc for each in steps for arc in each.get("next", {}).get("arcs", [])]
    for each in steps:
        into = [arc for arc in arcs if arc["step"] == each["step"]]
        if len(into) == 1 and draw(st.booleans()):
            name = draw(WORDS)
            held = f"ctx.{each['step']}_input.{name}"
            into[0]["set"] = {held: draw(st.sampled_from(["{{ output.data }}", "{{ workload.alpha }}", 3]))}
            each["input"] = {name: "{{ " + held + " }}"}
            each["tool"][0].setdefault("spec", {}).setdefault("timeout", 7)


@st.composite
def canonical(draw: st.DrawFn) -> dict[str, JSON]:
    """A document without errors; arcs lead only to later steps."""
    names = ["start", *draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))]
    steps = [step(draw, name, names[place + 1 :]) for place, name in enumerate(names)]
    payload(draw, steps)
    extra = {"delta": draw(DATA)}
    return {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": draw(WORDS), "path": "random/playbook"},
        "workload": {"alpha": 1, "beta": "http://127.0.0.1", "gamma": [1, 2], **extra},
        "workflow": steps,
    }


def as_v10(document: dict[str, JSON]) -> dict[str, JSON]:
    """The same playbook in the v10 dialect: outcome, args, set_ctx and set_iter, fields beside kind, no names."""
    made = deepcopy(document)
    for each in made["workflow"]:
        each.pop("input", None)
        for arc in each.get("next", {}).get("arcs", []):
            if "set" in arc:
                arc["args"] = {target.rpartition(".")[2]: value for target, value in arc.pop("set").items()}
        jumped = "'to':" in str(each["tool"])
        for one in each["tool"]:
            if not jumped:
                del one["name"]
        for one in each["tool"]:
            fields = one.pop("input", {}) if one["kind"] in ("http", "shell") else {}
            one.update(fields)
            for found in one.get("spec", {}).get("policy", {}).get("rules", []):
                then = found["else"]["then"] if "else" in found else found["then"]
                for target, value in then.pop("set", {}).items():
                    scope, _, name = target.partition(".")
                    then.setdefault(f"set_{scope}", {})[name] = value
    replaced: dict[str, JSON] = _in_old_words(made)
    return replaced


def _in_old_words(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _in_old_words(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_in_old_words(each) for each in value]
    if isinstance(value, str) and "{{" in value:
        return value.replace("output.data", "outcome.result").replace("output.", "outcome.")
    return value
