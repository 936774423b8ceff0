"""`apiVersion`, `kind` and `keychain` at the root (D3, D81)."""

from __future__ import annotations

import pytest

from noetl.playbook.migrate import migrate

STEP = "workflow:\n- step: start\n  tool: {kind: postgres, auth: pg}\n  next: end\n"
AFTER = "workflow:\n- step: start\n  tool: {kind: postgres, auth: pg}\n  next:\n    arcs:\n    - step: end\n"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# head\nmetadata: {}\n", "# head\napiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {}\n"),
        ("apiVersion: noetl.io/v1  # old\n", "apiVersion: noetl.io/v2  # old\nkind: Playbook\n"),
        ("kind: Playbook\napiVersion: 'noetl.io/v10'\n", "kind: Playbook\napiVersion: noetl.io/v2\n"),
        ("apiVersion:\nkind: ~\n", HEAD),
        ("apiVersion: other/v1\nkind: Job\n", "apiVersion: other/v1\nkind: Job\n"),
    ],
)
def test_version_and_kind_are_written_out_where_they_are_missing_or_old(before: str, after: str) -> None:
    migration = migrate(before + "workflow:\n- step: start\n  next: {arcs: []}\n  args: {}\n")
    assert migration.text.startswith(after)
    assert ("api-version" in {note.code for note in migration.notes}) == (before != after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "keychain:\n- name: pg\n  kind: stored\n"),
        ("keychain:\n", "keychain:\n- name: pg\n  kind: stored\n"),
        ("keychain: []\n", "keychain: [{name: pg, kind: stored}]\n"),
        (
            "keychain:\n- {name: a, kind: env}  # a\n",
            "keychain:\n- {name: a, kind: env}  # a\n- name: pg\n  kind: stored\n",
        ),
        (
            "keychain: [{name: a, kind: env}]\n",
            "keychain: [{name: a, kind: env}, {name: pg, kind: stored}]\n",
        ),
        ("keychain: [{name: pg, kind: env}]\n", "keychain: [{name: pg, kind: env}]\n"),
    ],
)
def test_credentials_that_nothing_declares_are_declared_as_stored_d81(before: str, after: str) -> None:
    migration = migrate(HEAD + before + STEP)
    assert migration.text == HEAD + after + AFTER
    assert ("keychain-stored" in {note.code for note in migration.notes}) == (before != after)


def test_the_keychain_is_inserted_after_metadata_with_the_spacing_of_the_sections_d81() -> None:
    assert migrate(f"{HEAD}metadata: {{}}\n\n# data\nworkload: {{}}\n\n{STEP}").text == (
        f"{HEAD}metadata: {{}}\n\nkeychain:\n- name: pg\n  kind: stored\n\n# data\nworkload: {{}}\n\n{AFTER}"
    )


def test_a_computed_credential_is_no_name() -> None:
    assert "keychain" not in migrate(HEAD + STEP.replace("auth: pg", "auth: '{{ workload.x }}'")).text
