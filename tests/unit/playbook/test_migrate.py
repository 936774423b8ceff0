"""Migration of whole documents: texts before and after, notes with positions, rejections."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from noetl.errors import Mark, PlaybookError, Problem
from noetl.playbook.migrate import Migration, Note, migrate

HERE = Path(__file__).parents[2] / "fixtures" / "migrate"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"  # three lines
CANONICAL = """\
apiVersion:   noetl.io/v2
kind: Playbook
metadata: {name: t,   path: t}
workflow:
-   step: start
    tool:
        -   kind: noop      # nameless, which is canonical too (D8)
            set: {ctx.a:   1}
    next: \n      {arcs: [{step: end}]}


# the end"""


def text(name: str) -> str:
    return (HERE / f"{name}.yaml").read_text("utf-8")


def body(document: str) -> str:
    return HEAD + dedent(document)


def step(lines: str) -> str:
    """A document whose only step has these lines, the first of them in line 6."""
    indented = "".join(f"    {line}\n" if line else "\n" for line in dedent(lines).strip().split("\n"))
    return f"{HEAD}workflow:\n  - step: start\n{indented}"


def refused(document: str) -> tuple[Problem, ...]:
    with pytest.raises(PlaybookError) as caught:
        migrate(document, "t.yaml")
    return caught.value.problems


def told(document: str) -> list[tuple[str, int, int]]:
    return [(each.code, each.at.line, each.at.column) for each in refused(document)]


def noted(migration: Migration) -> list[tuple[int, int, str]]:
    return [(note.at.line, note.at.column, note.code) for note in migration.notes]


@pytest.mark.parametrize("name", ["v2_all", "v10_all", "v10_payload", "json"])
def test_an_old_document_becomes_the_canonical_one_with_its_comments_and_its_order_d2(name: str) -> None:
    assert migrate(text(f"{name}.before")).text == text(f"{name}.after")


@pytest.mark.parametrize("name", ["v2_all", "v10_payload"])
def test_exact_arcs_carry_failures_as_they_did_before_d80(name: str) -> None:
    migration = migrate(text(f"{name}.before"), exact=True)
    assert migration.text == text(f"{name}.exact")
    assert "arc-on-failure" not in {note.code for note in migration.notes}


@pytest.mark.parametrize("name", ["v2_all", "v10_payload"])
def test_annotated_notes_are_written_above_the_part_they_describe(name: str) -> None:
    assert migrate(text(f"{name}.before"), annotate=True).text == text(f"{name}.annotated")


@pytest.mark.parametrize("name", ["v2_all.annotated", "v2_all.exact", "v10_all.after", "json.after"])
def test_migrating_the_result_again_changes_nothing(name: str) -> None:
    document = text(name)
    assert migrate(document, annotate=True, exact=True) == Migration(document, "canonical", (), False)


def test_notes_of_v2_point_into_the_original_text() -> None:
    migration = migrate(text("v2_all.before"))
    assert (migration.dialect, migration.changed) == ("v2", True)
    assert noted(migration) == [
        (19, 9, "arc-on-failure"),
        (43, 17, "keychain-stored"),
        (48, 55, "http-body"),
        (55, 24, "http-body"),
        (66, 17, "set-shared"),
        (66, 35, "http-body"),
        (67, 17, "set-shared"),
        (68, 15, "set-prev"),
        (68, 29, "http-body"),
        (86, 18, "payload-missing"),
        (91, 17, "template-in-code"),
        (102, 11, "dropped"),
    ]


def test_notes_of_v10_point_into_the_original_text() -> None:
    migration = migrate(text("v10_payload.before"), "old.yaml")
    assert migration.dialect == "v10"
    assert migration.notes[0] == Note(
        Mark("old.yaml", 1, 1), '"noetl.io/v1" has been changed to noetl.io/v2', "api-version"
    )
    assert noted(migration) == [
        (1, 1, "api-version"),
        (11, 11, "arc-on-failure"),
        (21, 16, "payload-missing"),
        (22, 19, "payload-missing"),
        (23, 20, "payload-missing"),
        (26, 7, "payload-whole"),
        (28, 41, "payload-missing"),
        (32, 11, "payload-unread"),
    ]


def test_a_note_has_file_line_column_code_and_message() -> None:
    note = migrate(step("tool: {kind: noop, auth: pg}\nnext: end\n"), "a.yaml").notes[0]
    assert str(note) == (
        'a.yaml:6:30: keychain-stored: the undeclared credential "pg" has been declared under'
        " `keychain` with kind `stored`"
    )


def test_a_canonical_document_comes_back_byte_for_byte() -> None:
    assert migrate(CANONICAL, annotate=True, exact=True) == Migration(CANONICAL, "canonical", (), False)


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
def test_line_breaks_and_byte_order_mark_stay_as_they_are(change: object) -> None:
    assert callable(change)
    assert migrate(change(CANONICAL)).text == change(CANONICAL)
    assert migrate(change(text("v2_all.before"))).text == change(text("v2_all.after"))


def test_a_canonical_else_without_then_is_repaired_and_nothing_else_is_touched_d11() -> None:
    before = step("""
        tool:
          - kind: noop
            set:   { ctx.a: 1 }
            spec: { policy: { rules: [ { when: true, then: {do: continue} }, { else: { do: fail } } ] } }
        next:
          arcs: [{step: end}]
    """)
    migration = migrate(before)
    assert migration.text == before.replace("{ do: fail }", "{ then: { do: fail } }")
    assert (migration.dialect, noted(migration)) == ("canonical", [(9, 74, "else-repaired")])


def test_text_that_is_not_yaml_is_refused_with_its_place() -> None:
    assert told("a: [1\nb: 2\n") == [("yaml-syntax", 2, 2)]


@pytest.mark.parametrize("document", ["", "- a\n", "text", "42\n"])
def test_a_document_that_is_not_a_mapping_is_not_a_playbook(document: str) -> None:
    assert told(document) == [("not-a-playbook", 1, 1)]


def test_reserved_words_are_refused_all_at_once_with_advice_d61() -> None:
    problems = refused(
        step("""
            case: []
            retry: {attempts: 3}
            loop: {in: "{{ workload.x }}", iterator: x, retry: 3}
            tool:
              - fetch: {kind: http, sink: {tool: {kind: postgres}}, spec: {retry: 2}}
              - pipe: [{kind: noop}]
              - name: store
                kind: sink
            next:
              - {step: end, case: 1}
        """)
    )
    assert [(each.at.line, each.at.column) for each in problems] == [
        (7, 5), (8, 49), (10, 29), (11, 9), (13, 9),
    ]  # fmt: skip
    assert all(each.fix for each in problems)


def test_vars_at_the_root_are_defaults_of_workload_d117() -> None:
    made = migrate(body("vars: {a: 1}\nworkflow: [{step: start, tool: {kind: noop}}]\n"))
    assert made.text == body("workload: {a: 1}\nworkflow: [{step: start, tool: {kind: noop}}]\n")
    assert [note.code for note in made.notes] == ["root-vars"]


def test_mixed_dialects_are_translated_construct_by_construct_and_noted_d117() -> None:
    made = migrate(
        step("""
            input: {a: 1}
            tool:
              - fetch:
                  kind: noop
                  eval: [{else: {do: continue}}]
        """)
    )
    assert [note.code for note in made.notes] == ["mixed-dialects"]
    assert "rules: [{else: {then: {do: continue}}}]" in made.text


def test_one_construct_in_two_dialects_is_refused_and_both_places_named_d117() -> None:
    (problem,) = refused(step("input: {a: 1}\nargs: {a: 2}\ntool: {kind: noop}\n"))
    assert (problem.code, problem.at.line, problem.at.column) == ("mixed-dialects", 7, 5)
    assert [(each.at.line, each.note) for each in problem.related] == [(6, '"input" belongs to the canonical form')]


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("args: {a: 1}\nnext: {arcs: [{step: '{{ ctx.x }}', args: {a: 1}}]}", (7, 41)),
        ("tool: {kind: noop, set_ctx: '{{ outcome }}'}", (6, 24)),
        ("tool: [{kind: noop, args: {}, input: {}}]", (6, 25)),
        ("tool: [{kind: noop, eval: {else: {do: fail}}}]", (6, 25)),
        ("tool: [{kind: noop, eval: never}]", (6, 25)),
        ("tool: [{kind: noop, spec: 5, eval: [{else: {do: fail}}]}]", (6, 25)),
        ("tool: [{kind: noop, eval: [{expr: '{{ 1 }}', when: '{{ 2 }}', do: fail}]}]", (6, 33)),
        ("tool: [{a: {kind: noop, name: b}}]", (6, 29)),
        ("tool: {kind: noop, eval: [{else: &a {do: fail}}]}", (6, 32)),
        ("tool: [{a: &a {kind: noop}}, {b: *a}]", (6, 13)),
        ("tool: {kind: noop, set_ctx: {a: 1}, set_shared: {a: 2}}", (6, 54)),
        ("when: '{{ true }}'\nspec: {policy: 5}", (6, 5)),
    ],
)
def test_constructs_without_a_canonical_form_are_rejected_with_positions(lines: str, place: tuple[int, int]) -> None:
    assert told(step(lines)) == [("old-dialect", *place)]


def test_a_keychain_that_is_no_list_takes_no_credentials() -> None:
    document = body("""\
        keychain: {a: b}
        workflow:
          - step: start
            tool: {kind: noop, auth: c}
            next: end
    """)
    assert told(document) == [("old-dialect", 4, 1)]


def test_explicit_keys_are_refused_only_when_there_is_something_to_rewrite() -> None:
    canonical = "? apiVersion\n: noetl.io/v2\nkind: Playbook\nworkflow: []\n"
    assert not migrate(canonical).changed
    assert told(step("? when\n: '{{ true }}'")) == [("old-dialect", 1, 1)]


def test_author_words_in_a_note_never_break_the_line_of_a_comment() -> None:
    document = step("""
        next:
          - step: "a\\nworkload: evil"
    """)
    migration = migrate(document, annotate=True)
    assert '# migrate: the arc to "a workload: evil" is taken only after success' in migration.text
    assert migrate(migration.text).changed is False


def test_a_document_that_grows_over_the_limit_is_refused() -> None:
    lines = "".join(f"      - step: s{i}\n" for i in range(500))
    document = f"{HEAD}workflow:\n  - step: start\n    next:\n{lines}"
    (problem,) = refused(document + "#" + "x" * (1_048_000 - len(document)))
    assert problem.message.startswith("this document cannot be migrated automatically (yaml-too-large: ")
