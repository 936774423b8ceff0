"""Keys that have no effect are reported, each at its place (D64, D100, D101)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from noetl.checks.checker import check
from noetl.output import JSON
from noetl.playbook.language import language
from noetl.playbook.shapes import KindShape, ListShape, MapShape, RecordShape, ReservedShape, Shape, UnionShape
from noetl.playbook.write import emit
from tests.playbooks import checked, kinds, problem_places, task

NOOP = "workflow:\n- {step: start, tool: {kind: noop}}\n"
LOOP = "workflow:\n- step: start\n  loop: {in: [1], iterator: n, spec: %s}\n  tool: {kind: noop, set: {ctx.a: 1}}\n"


def places(body: str) -> list[tuple[str, int, int]]:
    return problem_places([each for each in checked(body).problems if each.code in ("no-effect", "reserved")])


@pytest.mark.parametrize(
    ("body", "line", "column"),
    [
        ("executor: {version: noetl-runtime/9}\n" + NOOP, 4, 21),
        ("executor: {spec: {policy: {results: {reference_first: false}}}}\n" + NOOP, 4, 55),
        (LOOP % "{mode: parallel, policy: {exec: local, reduce: {ctx.a: last}}}", 6, 64),
        (LOOP % "{max_in_flight: 3}", 6, 39),
        (LOOP % "{policy: {max_in_flight: 3}}", 6, 48),
        (LOOP % "{policy: {reduce: {ctx.a: sum}}}", 6, 48),
        (LOOP % "{mode: parallel, policy: {reduce: {ctx.a: last, ctx.b: sum}}}", 6, 86),
        ("workflow:\n- {step: start, tool: {kind: noop}, spec: {policy: {failure: {mode: best_effort}}}}\n", 5, 53),
        ("workbook: {b: {tool: {kind: noop}, spec: {policy: {admit: {join: all}}}}}\nworkflow:\n"
         "- {step: start, tool: {kind: workbook, block: b}}\n", 4, 52),
        (task("kind: noop\nspec: {policy: {on_unmatched: fail, rules: [{else: {then: {do: continue}}}]}}"), 8, 23),
        ("keychain: [{name: k, kind: env}]\n" + task("kind: shell\nauth: k\nargv: [a]"), 9, 7),
        ("keychain: [{name: k, kind: env}]\n" + task("kind: shell\ninput: {auth: k, argv: [a]}"), 9, 15),
        (task("kind: python\ncode: result = 1\nspec: {timeout: {read: 1}}"), 9, 24),
        (task("kind: wait\nseconds: 1\nspec: {timeout: 3}"), 9, 14),
        (task("kind: noop\nspec: {retry: {attempts: 2}}"), 8, 14),
        ("executor: {spec: {retry: {attempts: 2}}}\n" + NOOP, 4, 19),
        ("executor: {spec: {http: {timeout: 3}}}\n" + NOOP, 4, 19),
        ("workflow:\n- {step: start, tool: {kind: noop}, spec: {http: {timeout: 3}}}\n", 5, 44),
        (task("kind: noop\nspec: {http: {timeout: 3}}"), 8, 14),
        (task("kind: http\nurl: x\nspec: {postgres: {timeout: 3}}"), 9, 14),
        (task("kind: http\nurl: x\nspec: {sandbox: {network: false}}"), 9, 14),
        ("executor: {spec: {sandbox: {}}}\n" + NOOP, 4, 19),
        ("keychain: [{name: k, kind: postgres_credential, dsn: {env: A}, host: x}]\n"
         + task("kind: postgres\nauth: k\nquery: SELECT 1"), 4, 64),
    ],
)  # fmt: skip
def test_a_key_without_effect_is_told_d100(body: str, line: int, column: int) -> None:
    assert places(body) == [("no-effect", line, column)]


@pytest.mark.parametrize(
    "body",
    [
        "executor: {version: noetl-runtime/2, spec: {policy: {results: {reference_first: true}}}}\n" + NOOP,
        LOOP % "{mode: parallel, max_in_flight: 3, policy: {exec: distributed, reduce: {ctx.a: last}}}",
        "workflow:\n- {step: start, loop: {in: [1], iterator: n}, tool: {kind: noop}, spec: {policy: {failure: {mode: best_effort}}}}\n",
        "executor: {spec: {policy: {failure: {mode: best_effort}}, http: {timeout: 3}}}\n" + task("kind: http\nurl: x"),
        task("kind: http\nurl: x\nspec: {timeout: {connect: 1, read: 1, total: 2}, http: {redirects: 2}}"),
        task("kind: python\ncode: result = 1\nspec: {timeout: {total: 2}}"),
        task("kind: http\nurl: x\nspec: {retry: {attempts: 2, delay: 1}}"),
        task("kind: http\nurl: x\nspec: {http: {retry: {attempts: 2, delay: 1}}}"),
        "executor: {spec: {retry: {attempts: 2, delay: 1}}}\n" + task("kind: http\nurl: x"),
        "keychain: [{name: k, kind: bearer}]\n" + task("kind: http\nauth: k\nurl: x"),
    ],
)
def test_a_key_with_an_effect_is_not_told_d100(body: str) -> None:
    assert places(body) == []


def test_a_profile_is_an_info_d100() -> None:
    (found,) = checked("executor: {profile: distributed}\n" + NOOP).problems
    assert (found.code, found.severity, found.at.line, found.at.column) == ("no-effect", "info", 4, 12)


def test_the_budget_of_calls_of_a_task_holds_for_its_frame_d87() -> None:
    tasks = "[{kind: noop, spec: {policy: {limits: {calls: %d}, rules: []}}}, {kind: noop}]"
    for own, calls in ((7, 7), (70, 50)):
        body = f"workflow:\n- step: start\n  spec: {{policy: {{limits: {{calls: 50}}}}}}\n  tool: {tasks % own}\n"
        program = checked(body).program
        assert program is not None
        assert program.steps["start"].pipeline.calls_max == calls


Place = tuple[str | int, ...]


def reserved(shape: Shape, path: Place = ()) -> Iterator[Place]:
    """The paths of all reserved keys; tasks are of kind http."""
    match shape:
        case ReservedShape():
            yield path
        case RecordShape(keys=keys):
            for name, key in keys.items():
                yield from reserved(key.shape, (*path, name))
        case KindShape(kinds=records):
            yield from reserved(records["http"], path) if "http" in records else ()
        case MapShape(of):
            yield from reserved(of, (*path, "block"))
        case ListShape(of):
            yield from reserved(of, (*path, 0))
        case UnionShape(shapes):
            for each in shapes:
                yield from reserved(each, path)


RESERVED = sorted(set(reserved(language(kinds()))), key=str)
PLACEHOLDERS = {
    "tracing", "quotas", "compensation", "ordering", "backpressure", "partitioning", "reducers", "placement", "sandbox",
    "quantum", "resources", "telemetry", "lease", "before", "after", "finally", "events", "cost", "cost_model",
}  # fmt: skip


def test_a_lease_of_a_step_names_the_setting_that_exists() -> None:
    (problem,) = checked("workflow:\n- step: start\n  spec: {lease: {ttl: 30}}\n  tool: {kind: noop}\n").problems
    assert problem.code == "reserved"
    assert "use the setting NOETL_LEASE: a worker renews one lease for all frames" in problem.message


def test_every_placeholder_of_the_source_documents_is_reserved_d101() -> None:
    assert PLACEHOLDERS - {path[-1] for path in RESERVED} == set()


@pytest.mark.parametrize("path", RESERVED, ids=lambda path: ".".join(map(str, path)))
def test_a_reserved_key_is_accepted_with_a_warning_d101(path: Place) -> None:
    value: JSON = {"a": 1}
    for place in range(len(path) - 1, -1, -1):
        part = path[place]
        value = [value] if part == 0 else {part: value}
        if path[place - 1 : place] in (("tool",), (0,)) and path[:place].count("tool") and part == "spec":
            value = {"kind": "http", "url": "x", **value}
    found = check(emit(value), kinds())
    (told,) = [each for each in found.problems if each.code == "reserved"]
    assert (told.severity, told.message.split('"')[1]) == ("warning", path[-1])
    assert (told.at.line, told.at.column) == (found.document.key_at(path).line, found.document.key_at(path).column)
    assert [each.message for each in found.problems if each.code in ("unknown-key", "wrong-type")] == []


def test_a_placeholder_names_what_to_use_instead() -> None:
    found = checked(
        "executor: {spec: {policy: {quotas: 1, cost_model: 2}}}\n"
        "workflow:\n- step: start\n  spec: {policy: {tracing: x, placement: y}}\n  tool: {kind: noop}\n"
    )
    told = [each.message.partition("; use ")[2] for each in found.problems if each.code == "reserved"]
    assert told == [
        "executor.spec.policy.limits",
        "",
        "the setting NOETL_TRACES of servers and workers",
        "spec.pool, which selects workers",
    ]
