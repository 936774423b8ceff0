"""Names of the older dialects in templates are replaced token by token."""

from __future__ import annotations

import pytest

from noetl.playbook.dialects.templates import TemplateContext, rewrite


def rewritten(text: str, place: TemplateContext | None = None) -> str:
    for change in sorted(rewrite(text, place or TemplateContext()).changes, reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    return text


def remarks(text: str, place: TemplateContext | None = None) -> list[tuple[int, str]]:
    return [(remark.start, remark.code) for remark in rewrite(text, place or TemplateContext()).remarks]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{{ outcome.status }}", "{{ output.status }}"),
        ("{{ outcome.error.message }}", "{{ output.error.message }}"),
        ("{{ outcome.result }}", "{{ output.data }}"),
        ("{{ outcome.result.data.x }}", "{{ output.data.data.x }}"),
        ("{{outcome['result'][0]  .x}}", "{{output['data'][0]  .x}}"),
        ("{{ outcome.http.status in [429,  500] }}", "{{ output.http.status in [429,  500] }}"),
        (
            "{{ outcome.pg.code }} {{ outcome.py.x }} {{ outcome.meta.ts }}",
            "{{ output.pg.code }} {{ output.py.x }} {{ output.meta.ts }}",
        ),
        ("{{ outcome.result_ref }} {{ result_ref }}", "{{ output.ref }} {{ output.ref }}"),
        ("{{ result.x }}", "{{ output.data.x }}"),
        ("{{ vars.x }} {{ vars['y'] }}", "{{ step.x }} {{ step['y'] }}"),
        ("{{ args.x }} {{ token.args.y }} {{ token.id }}", "{{ input.x }} {{ input.y }} {{ token.id }}"),
        ("{{ ctx.vars.outcome }} {{ iter.args }}", "{{ ctx.vars.outcome }} {{ iter.args }}"),
        (
            "{{ event.name }} {{ _prev.x }} {{ _task }} {{ _attempt }}",
            "{{ event.name }} {{ _prev.x }} {{ _task }} {{ _attempt }}",
        ),
        ("outcome.result {# outcome #} {{ 'outcome' }}", "outcome.result {# outcome #} {{ 'outcome' }}"),
        (
            "{% for outcome in args.all %}{{ outcome.status }}{% endfor %}",
            "{% for outcome in input.all %}{{ outcome.status }}{% endfor %}",
        ),
    ],
)
def test_old_words_become_new_ones_and_all_else_stays(before: str, after: str) -> None:
    assert rewritten(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{{ outcome.status == 'success' }}", "{{ output.status == 'ok' }}"),
        ('{{ "success" != outcome.status }}', '{{ "ok" != output.status }}'),
        ("{{ outcome.status in ['error', 'success'] }}", "{{ output.status in ['error', 'ok'] }}"),
        ("{{ outcome.status not in ('success',) }}", "{{ output.status not in ('ok',) }}"),
        (
            "{{ outcome.status | lower | trim() == 'success' }}",
            "{{ output.status | lower | trim() == 'ok' }}",
        ),
        ("{{ event.status == 'success' }}", "{{ event.status == 'ok' }}"),
        ("{{ ctx.status == 'success' }}", "{{ ctx.status == 'success' }}"),
        ("{{ outcome.result.status == 'success' }}", "{{ output.data.status == 'success' }}"),
    ],
)
def test_success_is_ok_where_a_status_is_compared_with_it_d21(before: str, after: str) -> None:
    assert rewritten(before) == after


def test_a_success_that_is_not_compared_is_left_and_said_d21() -> None:
    text = "{{ 'success' if outcome.status == 'success' else outcome.status }}"
    assert rewritten(text) == "{{ 'success' if output.status == 'ok' else output.status }}"
    assert remarks(text) == [(3, "success-left")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{{ outcome.result.data.x }}", "{{ output.data.x }}"),
        ("{{ outcome['result']['data']['x'] }}", "{{ output['data']['x'] }}"),
        ("{{ outcome.result.status_code }}", "{{ output.http.status }}"),
        ("{{ outcome.result.headers['etag'] }}", "{{ output.http.headers['etag'] }}"),
        ("{{ outcome.result }}", "{{ output.data }}"),
        ("{{ outcome.result.x }}", "{{ output.data.x }}"),
    ],
)
def test_the_result_of_an_http_task_is_the_body_and_gets_a_note_d82(before: str, after: str) -> None:
    place = TemplateContext(kind="http")
    assert rewritten(before, place) == after
    assert remarks(before, place) == [(3, "http-body")]


def test_prev_of_an_http_task_is_noted_d82() -> None:
    assert remarks("{{ _prev.data.x }}", TemplateContext(before="http")) == [(3, "http-body")]
    assert remarks("{{ _prev.data.x }}", TemplateContext(before="noop")) == []


def test_names_without_a_scope_get_it_unless_the_template_or_a_task_has_them_d81() -> None:
    place = TemplateContext(
        bare={"url": "workload.url", "city": "iter.city", "fetch": "workload.fetch"},
        labels=frozenset({"fetch"}),
    )
    text = (
        "{{ url }}/{{ city.id }}/{{ fetch.data }}/{{ x.url }}/{{ url(1) }}/{% for city in url %}{{ city }}{% endfor %}"
    )
    assert rewritten(text, place) == (
        "{{ workload.url }}/{{ city.id }}/{{ fetch.data }}/{{ x.url }}/{{ url(1) }}"
        "/{% for city in workload.url %}{{ city }}{% endfor %}"
    )
    assert rewritten("{{ city.id }}", place) == "{{ iter.city.id }}"
    assert rewritten("{{ unknown }}", place) == "{{ unknown }}"


def test_the_output_of_an_earlier_task_has_data_instead_of_result() -> None:
    place = TemplateContext(labels=frozenset({"fetch"}))
    assert rewritten("{{ fetch.result.x }} {{ fetch.data }} {{ fetch.status == 'success' }}", place) == (
        "{{ fetch.data.x }} {{ fetch.data }} {{ fetch.status == 'ok' }}"
    )
    assert remarks("{{ fetch.result.x }}", place) == [(3, "result-name")]


def test_shared_values_are_read_from_ctx_d72() -> None:
    assert (
        rewritten("{{ vars.total + vars.own }}", TemplateContext(shared=frozenset({"total"})))
        == "{{ ctx.total + step.own }}"
    )


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ("{{ args.a }}", "{{ ctx.b_input.a }}", []),
        ("{{ args.b }}", "{{ ctx.b_input.b | default(none) }}", ["payload-missing"]),
        ("x {{ args.b }}", "x {{ (ctx.b_input.b | default(none)) }}", ["payload-missing"]),
        ("{{ args.b + 1 }}", "{{ (ctx.b_input.b | default(none)) + 1 }}", ["payload-missing"]),
        ("{{ args.b | default(1) }}", "{{ ctx.b_input.b | default(1) }}", []),
        ("{{ args.b is defined }}", "{{ ctx.b_input.b is defined }}", []),
        ("{{ args.b is not defined }}", "{{ ctx.b_input.b is not defined }}", []),
        ("{{ args }}", "{{ ctx.b_input }}", ["whole-args"]),
    ],
)
def test_a_key_that_not_every_token_brings_gets_a_default(before: str, after: str, codes: list[str]) -> None:
    place = TemplateContext(payload="ctx.b_input", guaranteed=frozenset({"a"}))
    assert rewritten(before, place) == after
    assert [code for _, code in remarks(before, place)] == codes


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{{ outcome | tojson }}", "whole-outcome"),
        ("{{ args | tojson }}", "whole-args"),
        ("{{ outcome.rows }}", "unknown-outcome"),
        ("{{ result }}", "result-name"),
        ("{{ ctx.rows_ref.checksum }}", "old-ref"),
        ("{{ 'a }}", "unread-template"),
    ],
)
def test_a_change_that_is_not_equivalent_gets_a_remark(text: str, code: str) -> None:
    assert [each for _, each in remarks(text)] == [code]
