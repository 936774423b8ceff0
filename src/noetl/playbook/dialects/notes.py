"""The notes and problems of a migration, and notes as comments in the migrated text.

A note describes a change that is not exactly equivalent; a problem prevents the migration. Positions refer
to the original text. As a comment, a note is written on the line above the part that it describes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from noetl.errors import Mark, Problem, Related
from noetl.playbook.dialects.layout.tree import Layout, LayoutEntry, Leaf, List, Map
from noetl.playbook.dialects.layout.writer import is_block
from noetl.playbook.problems import problem

PREFIX = "# migrate: "


def annotate(layout: Layout, notes: list[Note]) -> None:
    """Write each note above the nearest entry before its position, unless the comment already exists."""
    root = layout.root
    if not isinstance(root, Map) or not is_block(root):
        return
    first: dict[int, LayoutEntry] = {}
    for entry in _entries(root):
        if entry.start >= 0:
            first.setdefault(layout.mark(entry.start).line, entry)
    lines = sorted(first)
    existing: dict[int, set[str]] = {}  # by the offset of the entry
    for note in notes:
        position = bisect_right(lines, note.at.line)
        entry = first[lines[position - 1]] if position else root.entries[0]
        comment = PREFIX + note.message
        if entry.start not in existing:
            existing[entry.start] = {above.strip() for above in entry.lead}
        if comment not in existing[entry.start]:
            existing[entry.start].add(comment)
            entry.lead.append(" " * (entry.base or 0) + comment)


def _entries(group: Map | List) -> Iterator[LayoutEntry]:
    """The entries of block mappings and lists, outermost first."""
    for entry in group.entries:
        yield entry
        if not isinstance(entry.value, Leaf) and is_block(entry.value):
            yield from _entries(entry.value)


NOTES: dict[str, str] = {
    "all-targets": "A legacy `next` with several targets starts all of them.",
    "assertion": "An assertion of a task has become `spec.validate`.",
    "assumed-input": "Nothing in the playbook provides this name, so it is an input that a caller sends.",
    "auth-fixed": "The credential was chosen by a template, and is now fixed.",
    "backoff-rounded": "The delay of a retry doubles; the old multiplier was different.",
    "block-defaults": "The arguments of a block are given by its callers.",
    "container-job": "A container is a Kubernetes job, and the task waits for its end.",
    "error-kind": "A rule that compared the kind of a failed request now compares the status of the response.",
    "child-result": "A child playbook returns its output; the public engine returned a status document.",
    "code-fixed": "Code or a script that was a value is written in its place.",
    "code-input": "The code reads names that the public engine provides; they are arguments now, or defined in it.",
    "condition-read": "A condition that the public engine ignored is now read.",
    "default-changed": "A default of the public engine is different.",
    "duckdb-access": "The SQL of a duckdb task may access files and the network, as in the public engine.",
    "duckdb-credential": "The SQL of a duckdb task reads the credentials that the public engine gave to DuckDB.",
    "entry-made": "There is no step `start`, so the first step is the entry step.",
    "execution-id": "An execution id is text; in the public engine it was a number.",
    "gateway-nats": "A callback to the gateway is published with NATS.",
    "guard-text": "A guard that was text around a template is now one expression.",
    "join-made": "Branches of a fork meet in a step, which waits for all of them and runs once.",
    "json-value": "The public engine parses JSON text in an argument, so the value is passed without `tojson`.",
    "labels": "A key of `metadata` has become a label.",
    "lenient": "A value that cannot be computed is null; the public engine skipped it.",
    "mixed-dialects": "The document mixes dialects; each construct has been translated by its own dialect.",
    "now-waits": "A task waits for its child playbook; the public engine did not wait.",
    "one-transaction": "Several SQL statements are one transaction; the public engine committed each.",
    "on-error": "`on_error: continue` of a task has become a rule.",
    "pass-skips": "A step with `pass` skips its tasks.",
    "pasted": "A value was pasted into code or a script.",
    "path-made": "The path or the name of the playbook has been made from the other one.",
    "per-iteration": "A condition that was evaluated for each iteration is evaluated after the loop.",
    "python-credential": "The credentials of a python task are environment variables of its code.",
    "script-container": "A script that ran in a Kubernetes job is fetched by a task, and run by a container.",
    "script-beside": "Code that was loaded from elsewhere must be a file beside the playbook.",
    "read-as": "The playbook is read as the public command line reads it.",
    "root-vars": "Root `vars`, which the public engine ignored, or root `ctx` are now defaults of `workload`.",
    "rows-as-list": "A SQL result before a filter for lists, such as `length`, is the list of its rows.",
    "save-task": "`save` or `sink` has become a task.",
    "scope-chosen": "A name was written without a scope, and has received one.",
    "secret-input": "A secret that was an argument is read from the keychain where it is needed.",
    "shadowed-workload": "A name is in `workload` and written later; the written value is read once there is one.",
    "sql-file": "psql runs an SQL file.",
    "sql-name": "A template in the place of a SQL name is quoted.",
    "sql-statement": "A SQL statement that was a value is written in its place.",
    "statements-split": "Each statement of a SQL task is a task and a transaction of its own.",
    "step-made": "A tool of a `case` branch has become a step.",
    "step-renamed": "The name of a step had characters that no name may have.",
    "step-result": "Other steps read the result of a step, which is now stored in `ctx`.",
    "timeout-fixed": "A timeout was chosen by a template, and is now fixed.",
    "transfer-tasks": "A transfer from a service is two tasks: one fetches the rows, one inserts them.",
    "vars-order": "A value that reads another one of the same `vars` computes it in its place.",
    "workload-template": "A template in `workload`, which is not evaluated, has become a constant or an expression.",
    "api-version": "`apiVersion` or `kind` was missing or old, and has been added or updated.",
    "arc-on-failure": "In v2 and v10 an arc that does not read the result was also taken after a failure.",
    "constant-rule": "A rule without a condition has received `when: true`.",
    "dropped": "A key without effect has been removed.",
    "else-repaired": "An `else` without `then` inside it has been repaired.",
    "http-failure": "A condition on the status of a response is also evaluated after a failed request.",
    "http-body": "`output.data` of an http task is the body of the response.",
    "keychain-stored": "A credential that was used but not declared has been declared with kind `stored`.",
    "old-ref": "A reference of the old form `{store, key, checksum, size}` has been found.",
    "payload-missing": "Not every token provides this key of `args`; without it `input` does not have the key.",
    "payload-unread": "The target of an arc with `args` is not in the playbook, so no step reads them.",
    "payload-whole": "`args` of an arc is a single value, so its keys are unknown.",
    "reference-name": "A reference is assigned to a name that does not end in `_ref`.",
    "result-name": "The data of a task, formerly `result`, is now read as `data`.",
    "set-after-error": "`set` of a task that continues after an error is also written by the rule that continues it.",
    "set-prev": "`_prev` is read-only. The value is written to `step.prev` instead.",
    "set-shared": "`set_shared` has become a write to `ctx`, with a reducer if it named one.",
    "template-in-code": "Templates in the code of a python task are not evaluated. Pass values with `input`.",
    "success-left": "The text 'success' in a template that reads a status has not been changed.",
    "task-names": "Tasks without a name have received the names that the older dialect gave them.",
    "unknown-outcome": "The template reads a part of `outcome` that the older dialects do not have.",
    "unread-template": "A template that cannot be parsed has not been changed.",
    "whole-args": "The template reads `args` as a whole.",
    "whole-outcome": "The template reads `outcome` as a whole.",
}


class Note(NamedTuple):
    """A change that is not exactly equivalent, or a decision. `at` refers to the original text."""

    at: Mark
    message: str
    code: str

    def __str__(self) -> str:
        return f"{self.at}: {self.code}: {self.message}"


class Findings:
    """Collects the notes and problems of one migration."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.notes: dict[Note, None] = {}  # in order, each once
        self.problems: dict[Problem, None] = {}

    def note(self, offset: int, code: str, message: str) -> None:
        assert code in NOTES, code
        # A note is always one line, because it may become a comment.
        made = Note(self.layout.mark(offset), " ".join(message.split()), code)
        self.notes.setdefault(made)

    def refuse(
        self,
        offset: int,
        message: str,
        *,
        code: str = "old-dialect",
        fix: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        self.problems.setdefault(problem(code, self.layout.mark(offset), message, fix=fix, related=related))
