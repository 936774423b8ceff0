"""Typed inputs (D104): declarations with faults, and how values fit."""

from __future__ import annotations

import pytest

from noetl.errors import InputProblem
from noetl.net.inputs import Inputs
from noetl.output import JSON
from noetl.playbook.write import write
from tests.playbooks import checked, problem_places, reading

WORKFLOW = "workflow:\n- step: start\n  tool: {kind: noop}\n"


def declared(body: str, workload: str = "") -> Inputs:
    result = checked(f"input: {{{body}}}\n{workload}{WORKFLOW}")
    assert result.problems == ()
    assert result.program is not None
    assert result.program.inputs is not None
    return result.program.inputs


def fit(inputs: Inputs, given: dict[str, JSON], folder: str | None = None) -> tuple[JSON, list[InputProblem]]:
    workload, problems = inputs.fit(given, lambda value: value == "stored", folder)
    return workload, list(problems)


def fitted(declaration: str, value: JSON) -> JSON:
    """The value, or the message."""
    workload, problems = fit(declared(f"x: {declaration}"), {"x": value})
    return workload["x"] if not problems else problems[0].message


@pytest.mark.parametrize(
    ("declaration", "value", "result"),
    [
        ("{type: string}", "", ""),
        ("{type: string}", 5, "expected text, got number"),
        ("{type: string}", None, "expected text, got null"),
        ("{type: string, required: false}", None, None),
        ("{type: integer}", "4", 4),
        ("{type: integer}", " -4 ", -4),
        ("{type: integer}", 4.0, 4),
        ("{type: integer}", 4.5, "expected an integer, got number"),
        ("{type: integer}", True, "expected an integer, got boolean"),
        ("{type: integer}", "1_000", "expected an integer, got text"),
        ("{type: integer}", "9" * 39, "expected an integer, got text"),
        ("{type: number}", 4, 4),
        ("{type: number}", "4.50", 4.5),
        ("{type: number}", "1e3", 1000.0),
        ("{type: number}", "nan", "expected a number, got text"),
        ("{type: number}", "1e999", "expected a number, got text"),
        ("{type: number, min: 0.5}", 0, "expected at least 0.5"),
        ("{type: boolean}", "TRUE", True),
        ("{type: boolean}", "yes", "expected true or false, got text"),
        ("{type: boolean}", 1, "expected true or false, got number"),
        ("{type: date}", "2026-02-29", "expected a date such as 2026-01-31"),
        ("{type: date}", " 2026-02-28", "2026-02-28"),
        ("{type: date}", 20260228, "expected a date such as 2026-01-31, got number"),
        ("{type: date, min: 2026-01-01}", "2025-12-31", "expected at least 2026-01-01"),
        ("{type: datetime}", "2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00Z"),
        ("{type: datetime}", "2026-01-31 12:00", "2026-01-31T12:00:00Z"),
        ("{type: datetime}", "0001-01-01T00:00:00+14:00", "expected a time such as 2026-01-31T12:00:00Z"),
        ("{type: datetime, max: 2026-01-01T00:00:00Z}", "2026-01-01T00:00:01Z", "expected at most 2026-01-01T00:00:00Z"),
        ("{type: list}", [1, "a"], [1, "a"]),
        ("{type: list}", "[1]", "expected a list, got text"),
        ("{type: list, items: {type: integer}}", ["1", 2], [1, 2]),
        ("{type: list, items: {type: integer}}", [1, None], "item 1: expected an integer, got null"),
        ("{type: list, max: 1}", [1, 2], "expected at most 1 items"),
        ("{type: list, items: {type: string, min: 1}}", ["a", ""], "item 1: expected at least 1 characters"),
        ("{type: map}", {"a": 1}, {"a": 1}),
        ("{type: map, min: 1}", {}, "expected at least 1 keys"),
        ("{type: file}", "/data/a.csv", "/data/a.csv"),
        ("{type: file}", "s3://bucket/a.csv", "s3://bucket/a.csv"),
        ("{type: file}", "a.csv", "expected an absolute path or a URL"),
        ("{type: string, enum: [eu, us]}", "eu", "eu"),
        ("{type: string, enum: [europe, america]}", "europa",
         'expected one of "europe", "america"; did you mean "europe"?'),
        ("{type: integer, enum: [1, 2]}", "2", 2),
        ("{type: string, pattern: '[A-Z]{3}'}", "CHF", "CHF"),
        ("{type: string, pattern: '[A-Z]{3}'}", "CHFX", "expected text that matches [A-Z]{3}"),
        ("{type: string, pattern: 'a|b'}", "ab", "expected text that matches a|b"),
        ("{type: string, format: email}", "a@example.com", "a@example.com"),
        ("{type: string, format: email}", "a", "expected text of the format email"),
        ("{type: string}", "stored", "stored"),
        ("{type: integer}", "stored", "expected an integer, got a large value that cannot be checked"),
        ("{type: list, max: 3}", "stored", "expected a list, got a large value that cannot be checked"),
    ],
)  # fmt: skip
def test_values(declaration: str, value: JSON, result: JSON) -> None:
    found = fitted(declaration, value)
    assert (found, type(found)) == (result, type(result))


def test_all_problems_are_named_at_once() -> None:
    inputs = declared("n: {type: integer, default: 3}, day: {type: date, desc: the day to load}, m: {type: map}")
    assert fit(inputs, {"nn": 4, "m": 1, "zzzz": 0})[1] == [
        InputProblem("nn", 'there is no such input; did you mean "n"? (the inputs are n, day, m)'),
        InputProblem("zzzz", "there is no such input; the inputs are n, day, m"),
        InputProblem("day", "missing: it is required (date: the day to load)"),
        InputProblem("m", "expected a mapping, got number"),
    ]
    assert fit(declared(""), {"a": 1})[1] == [
        InputProblem("a", "there is no such input; the playbook declares no inputs")
    ]


def test_no_message_contains_a_value() -> None:
    """It may be a secret, given under a wrong name."""
    types = ("string", "integer", "number", "boolean", "date", "datetime", "list", "map", "file")
    inputs = declared(
        ", ".join(f"{each}: {{type: {each}}}" for each in types[1:])
        + ", e: {type: string, enum: [x]}, p: {type: string, pattern: x}, f: {type: string, format: email}"
        ", l: {type: list, items: {type: integer}}, s: {type: string, max: 3}"
    )
    given: dict[str, JSON] = dict.fromkeys((*types[1:], "e", "p", "f", "s", "passwort"), "hunter22")
    _, problems = fit(inputs, {**given, "l": ["hunter22"]})
    assert len(problems) == len(given) + 1
    assert "hunter22" not in str(problems)


def test_defaults_and_the_request_are_merged() -> None:
    inputs = declared("o: {type: map, default: {a: {b: 1, c: 2}}}, l: {type: list, default: [1]}, n: {type: integer}",
                      "workload: {n: 7}\n")  # fmt: skip
    assert fit(inputs, {}) == ({"o": {"a": {"b": 1, "c": 2}}, "l": [1], "n": 7}, [])
    assert fit(inputs, {"o": {"a": {"b": 5}}, "l": []}) == ({"o": {"a": {"b": 5, "c": 2}}, "l": [], "n": 7}, [])


def test_optional_inputs_are_null_and_defaults_have_their_type() -> None:
    inputs = declared("a: {type: integer, required: false}, b: {type: integer, default: null}, c: {type: datetime,"
                      " default: 2026-01-01}, d: {type: integer, default: 4.0}")  # fmt: skip
    assert fit(inputs, {}) == ({"a": None, "b": None, "c": "2026-01-01T00:00:00Z", "d": 4}, [])
    assert fit(inputs, {"b": None, "d": None})[1] == [InputProblem("d", "expected an integer, got null")]


def test_a_default_file_is_beside_the_playbook() -> None:
    inputs = declared("a: {type: file, default: data/a.csv}, b: {type: file, default: /b.csv}")
    assert fit(inputs, {}, "/home/me/")[0] == {"a": "/home/me/data/a.csv", "b": "/b.csv"}
    assert fit(inputs, {})[0] == {"a": "data/a.csv", "b": "/b.csv"}
    assert fit(inputs, {"a": "x.csv"}, "/home/me")[1] == [InputProblem("a", "expected an absolute path or a URL")]


FAULTY = """\
input:
  a-b: {type: string}
  c: {type: text}
  d: {type: string, default: 5}
  e: {type: integer, min: 5, max: 1}
  f: {type: integer, pattern: x}
  g: {type: string, pattern: "("}
  h: {type: string, required: true, default: x}
  i: {type: list, items: {type: integer}, default: [x]}
  j: {type: date, min: never, enum: [2026-01-01, no]}
  k: {type: number, secret: true}
  l: {}
  m: {type: list, min: -1, max: x}
  n: {type: integer, default: 3}
  o: {type: string, enum: []}
  p: {type: list, items: {type: integer, items: {type: string}}}
workload: {n: 2, other: 1, e: x}
"""


def test_faults_of_declarations() -> None:
    assert problem_places(checked(FAULTY + WORKFLOW).problems) == [
        ("bad-name", 5, 3),
        ("bad-value", 6, 13),
        ("bad-value", 7, 30),
        ("conflicting-values", 8, 22),
        ("misplaced-key", 9, 22),
        ("bad-value", 10, 30),
        ("conflicting-values", 11, 21),
        ("bad-value", 12, 52),
        ("bad-value", 13, 24),
        ("bad-value", 13, 50),
        ("secret-input", 14, 21),
        ("missing-key", 15, 3),
        ("bad-value", 16, 24),
        ("bad-value", 16, 33),
        ("conflicting-values", 17, 22),
        ("bad-value", 18, 21),
        ("unknown-key", 19, 42),
        ("unknown-input", 20, 18),
    ]


def test_templates_read_declared_inputs_only() -> None:
    body = """\
        input: {name: {type: string}, broken: {type: text}}
        workflow:
        - step: start
          tool:
            kind: noop
            input:
              a: "{{ workload.nmae }}"
              b: "{{ workload.other | default(1) }}"
              c: "{{ workload.broken }}"
              d: "{{ workload.name }}{{ workload }}"
              e: "{{ name }}"
        """
    found = [(each.code, each.severity, each.line, each.fix) for each in checked(body).problems]
    assert found == [
        ("bad-value", "error", 4, None),
        ("unknown-input", "error", 10, "workload.name"),
        ("unknown-input", "warning", 11, None),
        ("unknown-name", "error", 14, "workload.name"),
    ]


def test_without_input_the_workload_takes_any_key() -> None:
    result = checked('workflow:\n- step: start\n  tool: {kind: noop, input: {a: "{{ workload.a }}"}}\n')
    assert [each.code for each in result.problems] == ["undeclared-workload"]
    assert result.program is not None
    assert result.program.inputs is None
    empty = checked("input: {}\n" + WORKFLOW).program
    assert empty is not None
    assert empty.inputs is not None


def test_a_written_playbook_has_the_same_inputs() -> None:
    body = (
        "input: {a: {type: list, desc: d, items: {type: date, min: 2026-01-01}, default: null, max: 3},"
        " b: {type: string, required: false, enum: [x], pattern: x, format: uri}}\n" + WORKFLOW
    )
    playbook = reading(body).playbook
    assert playbook is not None
    text = write(playbook)
    again = reading(text.partition("metadata:")[2].partition("\n  path: t\n")[2]).playbook
    assert again is not None
    assert again.inputs == playbook.inputs


SECRET = "user: {type: string}, pw: {type: string, secret: true, min: 6, desc: of the shop}, opt: {type: string, secret: true, required: false}"


def test_a_secret_input_is_no_part_of_the_workload() -> None:
    inputs = declared(SECRET)
    assert fit(inputs, {"user": "me"}) == ({"user": "me"}, [])
    advice = "give it under `secrets`, or on the command line with --secret pw"
    assert fit(inputs, {"user": "me", "pw": "canary-1"}) == (
        {"user": "me"},
        [InputProblem("pw", f"it is secret: {advice}, not in the workload")],
    )
    assert [(each.name, each.kind, each.fields) for each in inputs.secrets] == [
        ("pw", "input", {"required": True}),
        ("opt", "input", {"required": False}),
    ]


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        ({"pw": "canary-1"}, {}),
        ({"pw": "canary-1", "opt": None}, {}),
        (
            {},
            {
                "secrets.pw": "missing: it is required (string: of the shop); give it under `secrets`, or on the command"
                " line with --secret pw"
            },
        ),
        ({"pw": "short"}, {"secrets.pw": "expected at least 6 characters"}),
        (
            {"pw": "canary-1", "opt": "abc"},
            {"secrets.opt": "expected at least 4 characters: a shorter value cannot be masked"},
        ),
        (
            {"pw": "x" * 65_537, "opt": "\ud800abc"},
            {
                "secrets.pw": "expected at most 65,536 bytes (SECRET_BYTES_MAX)",
                "secrets.opt": "expected Unicode text",
            },
        ),
        ({"pw": 12345678}, {"secrets.pw": "expected text, got number"}),
        (
            {"pw": "canary-1", "user": "me", "op": "canary-2"},
            {
                "secrets.user": "it is not secret: give it in the workload",
                "secrets.op": 'there is no such input; did you mean "opt"? (the inputs are user, pw, opt)',
            },
        ),
    ],
)
def test_values_of_secret_inputs(given: dict[str, JSON], problems: dict[str, str]) -> None:
    assert dict(declared(SECRET).fit_secrets(given)) == problems


def test_faults_of_secret_inputs() -> None:
    body = (
        "input:\n"
        "  a: {type: integer, secret: true}\n"
        "  b: {type: string, secret: true, default: canary}\n"
        "  c: {type: string, secret: true, enum: [canary]}\n"
        "  d: {type: string, secret: true}\n"
        "  e: {type: string, secret: true}\n"
        "workload: {d: canary}\n"
        "keychain: [{name: e, kind: stored}]\n"
    )
    found = checked(body + WORKFLOW).problems
    assert [each.message for each in found if each.code == "secret-input"] == [
        '"a" is secret, so its type is string: only text can be masked',
        '"b" is secret, so the playbook cannot contain its value under "default"',
        '"c" is secret, so the playbook cannot contain its value under "enum"',
        '"e" is a secret input and a keychain entry: templates read both as keychain.e',
        '"d" is secret, so the playbook cannot contain its value under "workload"',
    ]


def test_who_can_read_and_give_secret_inputs() -> None:
    body = """\
        executor: {spec: {methods: [GET, POST]}}
        input: {pw: {type: string, secret: true}, opt: {type: string, secret: true, required: false}}
        triggers: [{name: hourly, kind: interval, every_s: 3600}]
        workflow:
        - step: start
          tool:
          - {kind: noop, name: right, auth: pw, input: {a: "{{ keychain.pw }}", b: "{{ keychain.opt }}"}}
          - {kind: noop, name: wrong, input: {a: "{{ workload.pw }}"}, set: {ctx.a: "{{ keychain.pw }}"}}
        notify:
        - {on: [error], tool: {kind: noop, auth: pw, input: {a: "{{ keychain.opt }}"}}}
        """
    found = [(each.code, each.message) for each in checked(body).problems if "secret" in each.code]
    other = 'cannot give the secret input "pw": make "pw" optional, or declare it under `keychain`'
    assert found == [
        ("secret-input", f"a query string, which servers write to their logs, {other}"),
        ("secret-input", f"a trigger {other}"),
        ("secret-input", '"pw" is a secret input: it is not in workload; fields of a task read keychain.pw'),
        (
            "secret-in-log",
            '"keychain.pw" would be written to the log with a rule or the set of a task; only fields of a task may read it',
        ),
        ("secret-input", 'a notification cannot read the secret input "pw" of the execution; use a keychain entry'),
        ("secret-input", 'a notification cannot read the secret input "opt" of the execution; use a keychain entry'),
    ]
