"""The rules of the front end in their order. Each does one thing and can rely on those before it."""

from __future__ import annotations

from collections.abc import Callable

from noetl.playbook.dialects.layout.tree import Layout, Map
from noetl.playbook.dialects.notes import Findings
from noetl.playbook.dialects.public import (
    cases,
    code,
    connections,
    containers,
    credentials,
    duckdb_secrets,
    fields,
    guards,
    head,
    loops,
    names,
    outcomes,
    responses,
    retries,
    routes,
    saves,
    secret_inputs,
    services,
    shell,
    sql,
    sql_results,
    steps,
    transfers,
    writes,
)
from noetl.playbook.dialects.public.book import Book

RULES: tuple[Callable[[Book], None], ...] = (
    head.root_metadata,
    head.metadata_path,
    head.metadata_keys,
    head.executor_keys,
    head.command_line,
    head.root_vars,
    head.root_leftovers,
    steps.step_names,
    steps.workbook_list,
    loops.iterator_steps,
    loops.step_loops,
    steps.dead_keys,
    steps.flat_tools,
    outcomes.step_results,
    steps.assertions,
    steps.passed_steps,
    steps.empty_mappings,
    loops.loop_keys,
    cases.case_blocks,
    cases.event_names,
    routes.arc_forms,
    routes.all_targets,
    routes.valid_names,
    containers.container_tasks,
    containers.script_tasks,
    fields.under_spec,
    steps.task_arguments,
    fields.timeouts,
    fields.waits,
    fields.noop_results,
    fields.error_words,
    outcomes.error_kinds,
    fields.unread_fields,
    shell.commands,
    shell.go_templates,
    fields.http_fields,
    fields.child_playbooks,
    fields.workbook_calls,
    lambda book: code.scripts(book, services.sql_file, credentials.default_of),
    lambda book: code.code_values(book, credentials.default_of),
    services.nats_tasks,
    services.gateway_tasks,
    services.artifacts,
    transfers.transfer_tasks,
    code.libs,
    sql.sql_fields,
    duckdb_secrets.ducklake_tasks,
    connections.connection_fields,
    steps.block_arguments,
    steps.hand_on,
    sql.arguments,
    retries.retry_blocks,
    saves.save_blocks,
    credentials.keychain_entries,
    outcomes.secret_tasks,
    outcomes.dead_blocks,
    credentials.token_calls,
    credentials.read_credentials,
    duckdb_secrets.repeated_credentials,
    duckdb_secrets.duckdb_credentials,
    duckdb_secrets.outside_access,
    credentials.auth_forms,
    code.json_values,
    code.templates_in_code,
    writes.step_vars,
    writes.iterations,
    writes.shared_vars,
    writes.continued_sets,
    writes.bare_sets,
    head.entry_step,
    guards.text_guards,
    responses.local_responses,
    code.provided_names,
    code.returns,
    sql_results.statement_results,
    names.read_names,
    responses.failure_guards,
    code.provided_names,  # also what templates expect from a caller
    secret_inputs.passed_secrets,
    writes.join_sets,
    routes.joins,
    sql.sql_templates,
    sql.one_transaction,
)


def normalise(layout: Layout, findings: Findings, *, exact: bool) -> bool:
    """Apply all rules. Returns whether the document used an idiom of the public engine."""
    assert isinstance(layout.root, Map)
    book = Book(layout.root, findings, exact)
    book.legacy = layout.root.text("apiVersion") == "noetl.io/v1" or any(
        step.body.get("type") is not None or step.body.get("case") is not None for step in book.steps
    )
    for rule in RULES:
        rule(book)
    return book.public
