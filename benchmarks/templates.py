"""The durations of templates: the usual ones, and the worst that the limits allow.

Run it with `python -m benchmarks.templates`; each row has a name, a value and its unit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from timeit import repeat

from benchmarks.sizes import scaled
from noetl.template.compile import BadTemplate, TemplateError, compile_template

GUARD = "{{ output.status == 'error' and output.http.status in [429,500,502,503,504] }}"
SCOPE = {
    "workload": {"n": 5},
    "ctx": {"x": 1, "rows": [{"id": n, "name": f"row {n}"} for n in range(1_000)]},
    "iter": {"page": 2},
    "output": {"status": "error", "http": {"status": 503}},
    "numbers": list(range(100_000)),
    "text": "a" * 1_000_000,
}
EVALUATIONS = {
    "path": "{{ iter.page }}",
    "page + 1": "{{ (iter.page|int) + 1 }}",
    "url": "https://example.org/{{ iter.page }}?x={{ ctx.x }}",
    "map over 1,000 rows": "{{ ctx.rows|map(attribute='id')|list }}",
    "pass 100,000 numbers through": "{{ numbers }}",
}
HOSTILE_SOURCES = {
    "brackets": "{{ " + "(" * 60_000,
    "sum": "{{ " + "1+" * 30_000 + "1 }}",
    "tags": "{{a}}" * 13_000,
    "digits": "{{ " + "1" * 60_000 + " }}",
    "comment": "{#" * 30_000,
}
HOSTILE_RUNS = {
    "nested loops": "{% for a in numbers %}{% for b in numbers %}{% endfor %}{% endfor %}",
    "searches": "{% for a in numbers %}{% if 'ab' in text %}{% endif %}{% endfor %}",
    "sorting": "{{ numbers|sort|reverse|sort|reverse|sort|reverse|sort }}",
    "expression": "{{ text|regex_replace('(a|b)*a(a|b){12}x|a', 'c') }}",
}


def best(run: Callable[[], object], times: int) -> float:
    """Seconds for one run, in the best of five series."""
    return min(repeat(run, number=times, repeat=5)) / times


def measure() -> list[tuple[str, float, str]]:
    guard = compile_template(GUARD)
    rows = [
        ("template: compile the guard", best(lambda: compile_template(GUARD), scaled(200, 5)) * 1e6, "µs"),
        ("template: guard holds", best(lambda: guard.holds(SCOPE), scaled(50_000, 100)) * 1e6, "µs"),
        ("template: guard as a value", best(lambda: guard(SCOPE), scaled(50_000, 100)) * 1e6, "µs"),
    ]
    for name, source in EVALUATIONS.items():
        template = compile_template(source)
        rows.append((f"template: {name}", best(partial(template, SCOPE), scaled(2_000, 5)) * 1e6, "µs"))
    rows += [(f"template: refuse {name}", once(source), "ms") for name, source in HOSTILE_SOURCES.items()]
    rows += [(f"template: stop {name}", once(source), "ms") for name, source in HOSTILE_RUNS.items()]
    return rows


def once(source: str) -> float:
    """Milliseconds until a hostile template is refused or stopped."""
    start = perf_counter()
    with suppress(BadTemplate, TemplateError):
        compile_template(source, statements=True)(SCOPE)
    return (perf_counter() - start) * 1e3


if __name__ == "__main__":
    for name, value, unit in measure():
        print(f"{name:45} {value:10.2f} {unit}")
