"""Hostile templates: each is refused in the way it should be, or gives its small answer; none costs much."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from noetl.template.compile import BadTemplate, Moment, TemplateError, compile_template
from noetl.template.limits import FUEL_MAX, MEMORY_MAX, Meter

PEAK_BYTES_MAX = 16 * 1024 * 1024
MOMENT = Moment("2026-01-31T12:00:00Z", "fetch#1/1")
NESTED: list[object] = []
for _ in range(5_000):
    NESTED = [NESTED]
SCOPE: dict[str, object] = {
    "a": 1,
    "s": "x",
    "text": "a" * 1_000_000,
    "long": "ab " * 30_000,
    "quotes": "a" * 20_000 + '"' * 20_000,
    "tags": "<" * 50_000 + "&#x41" * 10_000,
    "dashes": "a" + "-" * 60_000 + "b",
    "unicode": "ΐ" * 300_000,
    "numbers": list(range(100_000)),
    "words": [f"word {n}" for n in range(50_000)],
    "rows": [{"id": n, "name": f"n{n % 7}", "deep": {"er": [n]}} for n in range(20_000)],
    "lists": [[n] for n in range(20_000)],
    "map": {f"k{n}": n for n in range(50_000)},
    "nested": NESTED,
    "json": "[" * 500_000,
    "maps": "[" + "{}," * 200_000 + "{}]",
    "same": ["a" * 1_000 for _ in range(5_000)],
    "big": 10**4_000,
    "second": "{{ s }}{% for x in numbers %}{{ x }}{% endfor %}",
    "evil": "(a|a|a)*(b|b)*$",
    "call": print,
    "type": int,
    "module": pytest,
    "instance": MOMENT,
}

# Attributes of Python objects: there are none, so each is undefined.
ATTRIBUTES = [
    "''.__class__",
    "''['__class__']",
    "''.__class__.__mro__",
    "[].__class__.__base__.__subclasses__",
    "{}.__class__",
    "(1).__class__",
    "1.5.__class__",
    "true.__class__",
    "none.__class__",
    "s.__class__",
    "s.__doc__",
    "s['__init__']['__globals__']",
    "rows.__len__",
    "rows[0].__class__",
    "map.__getitem__",
    "a.real",
    "a.__add__",
    "instance.at",
    "instance[0]",
    "instance.__class__",
    "instance._fields",
    "module.raises",
    "module.__builtins__",
    "type.__subclasses__",
    "call.__self__",
    "call.__globals__",
    "self",
    "self.__init__",
    "self._TemplateReference__context",
    "cycler",
    "cycler.__init__.__globals__",
    "joiner.__init__.__globals__.os",
    "namespace.__init__.__globals__",
    "lipsum.__globals__",
    "range.__class__",
    "now.__class__",
    "uuid.__globals__",
    "get_flashed_messages",
    "request.application",
    "config.items",
    "environment",
    "''.join",
    "s.format",
    "s.format_map",
    "s.encode",
    "numbers.append",
    "map.update",
    "map['pop']",
    "caller",
    "_TemplateReference",
    "__builtins__",
    "__import__",
    "os",
    "rows[0]['__class__']",
    "('' ~ s).__class__",
    "(s|upper).__class__",
    "range(3).__class__",
    "[1][0].__class__",
    "{'a': 1}.a.__class__",
]

# Calls: only range, now, uuid, and the methods in the table.
CALLS = [
    "''.__class__()",
    "''.__class__.__mro__[1].__subclasses__()",
    "[].__class__.__base__.__subclasses__()[100]('id', shell=true)",
    "self.__init__.__globals__.__builtins__.__import__('os').popen('id').read()",
    "cycler.__init__.__globals__.os.popen('id').read()",
    "lipsum.__globals__['os'].popen('id').read()",
    "lipsum(n=100000)",
    "namespace(a=1)",
    "cycler('a', 'b').next()",
    "joiner(',')()",
    "dict(a=1)",
    "dict(**map)",
    "open('/etc/passwd').read()",
    "call('x')",
    "type('1')",
    "module.raises(type)",
    "instance.count(1)()",
    "instance._asdict()",
    "instance._replace(at='x')",
    "__import__('os').system('id')",
    "eval('1')",
    "exec('1')",
    "getattr(s, 'upper')()",
    "super()",
    "caller()",
    "debug()",
    "gettext('a')",
    "_('a')",
    "'{0.__class__}'.format(s)",
    "'{0.secret}'.format(instance)",
    "'{a.__class__}'.format_map(map)",
    "'{:>1000000000}'.format(1)",
    "'a'.ljust(1000000000)",
    "'a'.rjust(1000000000)",
    "'a'.zfill(1000000000)",
    "'a'.center(1000000000)",
    "'a'.expandtabs(1000000000)",
    "'a'.translate(map)",
    "'a'.encode('utf-16')",
    "'a'.encode().decode()",
    "'%c'.__mod__(65)",
    "s.__add__('b')",
    "s.__class__('b')",
    "numbers.append(1)",
    "numbers.clear()",
    "numbers.sort()",
    "numbers.extend(numbers)",
    "numbers.pop()",
    "numbers.__imul__(100)",
    "map.update(a=1)",
    "map.pop('k1')",
    "map.clear()",
    "map.setdefault('a', 1)",
    "map.popitem()",
    "map.copy()",
    "map.fromkeys(numbers)",
    "a.to_bytes(1000000000, 'big')",
    "a.bit_length()",
    "1.5.hex()",
    "1.5.as_integer_ratio()",
    "now()()",
    "uuid().hex()",
    "range(3)()",
    "range(3).__iter__()",
    "(s)()",
    "s()",
    "'a'()",
    "[s][0]()",
    "(s|upper)()",
    "loop()",
    "range(*numbers)",
    "range(**map)",
    "'a'.replace(*words)",
    "s|upper(*words)",
    "s is eq(*words)",
]

# Filters and tests that only Jinja has, or that do not exist.
UNKNOWN = [
    "''|attr('__class__')",
    "s|attr('upper')",
    "'%1000000000d'|format(1)",
    "'%s'|format(s)",
    "numbers|random",
    "s|pprint",
    "s|safe",
    "s|forceescape",
    "s|urlize",
    "map|xmlattr",
    "s|eval",
    "s|system",
    "s|__class__",
    "s|a.b.c",
    "numbers|map('attr', '__class__')",
    "numbers|map('format', 1)",
    "numbers|map('random')",
    "numbers|select('callable')",
    "numbers|select('sameas', 1)",
    "numbers|select('eval')",
    "s is callable",
    "s is sameas s",
    "s is escaped",
    "'upper' is filter",
    "'odd' is test",
    "s is a.b",
]

# Too much: of text, of items, of work, of room, of digits.
EXHAUSTION = [
    "'A' * 10**9",
    "[0] * 10**8",
    "'%1000000000d' % 1",
    "'%s' % s",
    "9**9**9",
    "9**(9**9)",
    "2**64",
    "2**63",
    "10**18 * 10**18",
    "-(2**62) * 4",
    "1e308 * 10",
    "1e308 + 1e308",
    "0**-1",
    "0.0**-1",
    "(-8)**0.5",
    "10.0**400",
    "big + 1",
    "big * big",
    "big ** 2",
    "big / 3",
    "big % 7",
    "-big",
    "big|abs",
    "big|int",
    "big|round",
    "big|float",
    "1 / 0",
    "1 // 0",
    "1 % 0",
    "1.5 % 0.0",
    "range(10**9)",
    "range(0, 10**18, 1)",
    "range(10001)",
    "range(0, 1, 0)",
    "range(big)",
    "'a'|center(10**9)",
    "'a'|indent(10**9)",
    "long|replace(' ', '\\n')|indent(10**6)",
    "text|replace('a', text)",
    "text|replace('', 'bbbb')",
    "text.replace('a', text)",
    "words|join(text)",
    "text.join(words)",
    "(text ~ text) ~ text",
    "text + text",
    "text ~ numbers",
    "text|list",
    "text|title",
    "long|title",
    "unicode|upper|lower|upper|lower|upper",
    "text|wordwrap(1)",
    "dashes|wordwrap(5)",
    "s.upper.lower()",
    "text|wordcount",
    "words|join|capitalize ~ (unicode ~ unicode)|upper",
    "(unicode ~ unicode)|capitalize",
    "text|urlencode",
    "unicode|urlencode",
    "tags|striptags",
    "text|b64encode|b64encode",
    "json|fromjson",
    "maps|fromjson",
    "nested|tojson",
    "nested|string",
    "'' ~ nested",
    "nested|tojson(2)",
    "[1, 2]|tojson(10**9)",
    "[[[[[[1]]]]]]|tojson(-1)",
    "[1]|batch(10**8, 0)",
    "[1]|batch(0)",
    "[1]|slice(10**8)",
    "[1]|slice(0)",
    "numbers|batch(1)|map('list')|map('length')",
    "rows|map(attribute='deep.er.0')|map('string')|map('int')|map('string')|map('int')|map('string')",
    "numbers + numbers",
    "words|map('replace', 'w', text)",
    "words|map('center', 10000)",
    "words|map('regex_search', evil)",
    "words|map('regex_replace', '(w)', text)",
    "lists|sum(start=numbers)",
    "lists|map('batch', 1)|map('batch', 1)|map('batch', 1)|map('batch', 1)",
    "rows|groupby('deep')",
    "rows|sort(attribute='deep')",
    "rows|unique(attribute='deep')|unique(attribute='deep')|unique|unique|unique",
    "same|unique|sort|unique|sort|map('upper')|map('lower')|map('upper')",
    "text|regex_replace('a', 'bbbb')",
    "text|regex_replace('', 'bbbb')",
    "text|regex_search('(a*)*b')",
    "text|regex_search('(a|a)*(a|b){500}b')",
    "quotes|regex_replace('a[^b]*b|a', 'c')",
    "quotes|regex_replace('(a|b)*a(a|b){12}x|a', 'c')",
    "text|regex_search(text)",
    "'a'|regex_search('(' ~ s)",
    "'a'|regex_search(s, 7)",
    "'a'|regex_replace(s, '\\\\g<no>')",
    "text < numbers",
    "none < 1",
    "'9' < 10",
    "[1] < [2]",
    "true < 2",
    "1 in 1",
    "1 in 'a'",
    "missing in 'a'",
    "'a' in missing",
    "missing",
    "missing.deeper[0]['x']",
    "missing + 1",
    "missing ~ ''",
    "missing|upper",
    "missing|int",
    "-missing",
    "missing < 1",
    "range(missing)",
    "[missing]",
    "{'a': missing}",
    "{a: 1}",
    "numbers[missing]",
    "numbers[missing:]",
    "numbers['a':]",
    "numbers[::0]",
    "s|join(1 if missing)",
    "call",
    "instance",
    "[call]|string",
    "'' ~ call",
]

# What never gets past the check: too long, too deep, no template at all.
UNREADABLE = [
    "{{" * 20_000,
    "{%" * 20_000,
    "{#" * 20_000,
    "{# " + "a" * 60_000,
    "{{ a }}" * 9_000,
    "{{a}}" * 13_000,
    "{{ " + "1+" * 20_000 + "1 }}",
    "{{ " + "1+" * 400 + "1 }}",
    "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
    "{{ " + "[" * 5_000 + "]" * 5_000 + " }}",
    "{{ " + "{'a':" * 5_000 + "1" + "}" * 5_000 + " }}",
    "{{ " + "(" * 40 + "1" + ")" * 40 + " }}",
    "{{ " + "not " * 10_000 + "1 }}",
    "{{ " + "not " * 40 + "1 }}",
    "{{ " + "-" * 50_000 + "1 }}",
    "{{ " + "-" * 40 + "1 }}",
    "{{ " + "- + " * 40 + "1 }}",
    "{{ a" + ".b" * 30_000 + " }}",
    "{{ a" + ".b" * 100 + " }}",
    "{{ a" + "[0]" * 15_000 + " }}",
    "{{ a" + "[a" * 1_000 + "]" * 1_000 + " }}",
    "{{ a" + "|abs" * 15_000 + " }}",
    "{{ a" + "|abs" * 100 + " }}",
    "{{ a" + "()" * 100 + " }}",
    "{{ " + "a if a else " * 3_000 + "a }}",
    "{{ " + "a ** " * 10_000 + "a }}",
    "{{ " + "a ** " * 100 + "a }}",
    "{{ " + "a < " * 20_000 + "a }}",
    "{{ " + "'a' ~ " * 9_000 + "'a' }}",
    "{{ [" + "1," * 30_000 + "] }}",
    "{{ " + "1" * 60_000 + " }}",
    "{{ " + "1_" * 30_000 + "1 }}",
    "{{ 0x" + "f" * 60_000 + " }}",
    "{{ 1e" + "9" * 5_000 + " }}",
    "{{ " + "9" * 30 + " }}",
    "{{ '" + "a" * 60_000,
    "{{ '" + "\\" * 60_000,
    "{{ '\\ud800' }}",
    "{{ '\\x' }}",
    "{{ '\\N{NOT A LETTER}' }}",
    "{{ \x00 }}",
    "{{ ａ.ｂ｜ｃ }}",
    "{% if a %}" * 5_000,
    "{% for a in a %}" * 4_000,
    "{% if a %}" + "{% elif a %}" * 5_000 + "{% endif %}",
    "{% raw %}" * 7_000,
    "{% raw %}" + "{% endraw" * 5_000,
    "x" * 70_000 + "{{ a }}",
    "{{ a",
    "{{ }}",
    "{{ a b }}",
    "{{ a. }}",
    "{{ 'a' }",
    "{% a",
    "{% endif %}",
    "{% if %}{% endif %}",
    "{% if a %}{% endfor %}",
    "{% unknown %}",
    "{% do a %}",
    "{% break %}",
    "{% trans %}a{% endtrans %}",
]

# Statements that no template may have, and loops that continue too long.
STATEMENTS = [
    "{% set x = 'A' * 10**9 %}",
    "{% set ns = namespace(a=1) %}",
    "{% set x %}a{% endset %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% call s() %}{% endcall %}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% from 'os' import system %}",
    "{% extends '/etc/passwd' %}",
    "{% block a %}{% endblock %}",
    "{% filter upper %}a{% endfilter %}",
    "{% with a = 1 %}{% endwith %}",
    "{% autoescape true %}{% endautoescape %}",
    "{% print(s) %}",
    "{% for x in numbers recursive %}{{ loop(x) }}{% endfor %}",
    "{% for x in s %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in s %}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in s %}{{ loop.__class__ }}{% endfor %}",
    "{% for x in s %}{{ loop._iterable }}{% endfor %}",
]
LOOPS = [
    "{% for a in range(10000) %}" * 3 + "x" + "{% endfor %}" * 3,
    "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
    "{% for a in range(10000) %}{{ text }}{% endfor %}",
    "{% for a in range(10000) %}" + "x" * 10_000 + "{% endfor %}",
    "{% for a in range(10000) %}{{ range(10000)|sum }}{% endfor %}",
    "{% for a in range(10000) %}{{ text|length }}{{ rows|map(attribute='id')|sum }}{% endfor %}",
    "{% for a in range(10000) %}{% if a in numbers and -1 in numbers %}x{% endif %}{% endfor %}",
    "{% for a in range(10000) %}{% if 'b' in text %}x{% endif %}{% endfor %}",
    "{% for a in range(10000) %}{% if rows == rows[:] %}{% endif %}{% endfor %}",
    "{% for a in range(10000) if 'b' in text %}{% endfor %}",
    "{% for a in range(10000) %}{% if text|regex_search('b+') %}{% endif %}{% endfor %}",
    "{% for a in range(10000) %}{% if text|sha256 %}{% endif %}{% endfor %}",
    "{% for a in range(10000) %}{% if a" + "|tojson|fromjson" * 4 + "== a %}{% endif %}{% endfor %}",
    "{% for a in range(10000) %}{% if uuid() %}{% endif %}{% endfor %}",
    "{% for a in numbers %}{% for b in numbers %}{% else %}{% endfor %}{% endfor %}",
    "{% for a, b in map.items() %}{{ a }}{{ b }}{{ rows }}{% endfor %}",
    "{% for a in missing %}{% endfor %}",
    "{% for a in 1 %}{% endfor %}",
    "{% for a, b in numbers %}{% endfor %}",
    "{% for a, b in lists %}{% endfor %}",
]

# Harmless, though it does not look it: the whole answer is known.
ANSWERS: list[tuple[str, object]] = [
    ("{{ second }}", SCOPE["second"]),
    ("{{ second ~ '' }}", SCOPE["second"]),
    ("{{ '{{ s }}' }}", "{{ s }}"),
    ("{% raw %}{{ ''.__class__ }}{% endraw %}", "{{ ''.__class__ }}"),
    ("{# {{ ''.__class__.__mro__ }} #}a", "a"),
    ("{{ 1 if true else 9**9**9 }}", 1),
    ("{{ true or 'A' * 10**9 }}", True),
    ("{{ false and 'A' * 10**9 }}", False),
    ("{{ s|default('A' * 10**9) }}", "x"),
    ("{{ '12345' }}", "12345"),
    ("{{ '1e5' }}", "1e5"),
    ("{{ 'None' }}", "None"),
    ("{{ '[1,2]' }}", "[1,2]"),
    ("{{ \"{'a':1}\" }}", "{'a':1}"),
    ("{{ '0x10' }}", "0x10"),
    ("{{ '1' }}{{ '2' }}", "12"),
    ("{{ text == text }}", True),
    ("{{ text|length }}", 1_000_000),
    ("{{ -1 in numbers }}", False),
    ("{{ 'b' in text }}", False),
    ("{{ long|regex_search('c') }}", None),
    ("{{ ('a' * 2) if false else 'b' }}", "b"),
    ("{{ 'z' in nested }}", False),
    ("{{ text|int(base=36)|string|int }}", 0),
    ("{{ 1 ** 999999999999 }}", 1),
    ("{{ (-1) ** 999999999999 }}", -1),
    ("{{ 2 ** -5000 }}", 0.0),
    ("{{ " + " or ".join(["missing"] * 1_000) + " or 1 }}", 1),
    ("{{ " + " and ".join(["a"] * 1_000) + " }}", 1),
    ("{{ " + " ~ ".join(["''"] * 1_000) + " }}", ""),
]


@contextmanager
def bounded(source: str) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= PEAK_BYTES_MAX, f"{source[:100]} holds {peak:,} bytes"


def ending(source: str) -> str:
    """How a template ends: with a value, an error of ours, or a fault, by its code."""
    try:
        compile_template(source, statements=True)(SCOPE, MOMENT)
    except TemplateError as error:
        known = error.message.startswith('"{') and "cannot be evaluated" not in error.message
        return "error" if known else error.message
    except BadTemplate as bad:
        return bad.faults[0].code
    return "value"


def test_an_attribute_of_an_object_is_undefined_not_reached() -> None:
    for words in ATTRIBUTES:
        template = compile_template("{{ " + words + " }}")
        with pytest.raises(TemplateError, match=r"is undefined$"):
            template(SCOPE, MOMENT)
        assert template.holds(SCOPE, MOMENT) is False


@pytest.mark.parametrize(
    ("payloads", "codes"),
    [
        (["{{ " + words + " }}" for words in CALLS], {"not-allowed"}),
        (["{{ " + words + " }}" for words in UNKNOWN], {"unknown-filter", "unknown-test"}),
        (UNREADABLE, {"bad-template"}),
        (STATEMENTS, {"not-allowed"}),
    ],
    ids=["calls", "unknown", "unreadable", "statements"],
)
def test_a_template_that_must_not_be_is_refused_before_it_runs(payloads: list[str], codes: set[str]) -> None:
    for source in payloads:
        with pytest.raises(BadTemplate) as bad:
            compile_template(source, statements=True)
        assert codes & {fault.code for fault in bad.value.faults}, (source[:100], bad.value.faults)


def test_what_would_exhaust_us_is_an_error_that_says_why_and_holds_little() -> None:
    for source in [*("{{ " + words + " }}" for words in EXHAUSTION), *LOOPS]:
        with bounded(source):
            assert ending(source) in ("error", "bad-arguments", "bad-template"), source[:100]


def test_a_template_that_only_looks_hostile_gives_its_answer() -> None:
    for source, answer in ANSWERS:
        assert compile_template(source)(SCOPE, MOMENT) == answer, source[:100]


def test_a_value_passed_through_is_neither_copied_nor_paid_for() -> None:
    template = compile_template("{{ rows }}")
    meter = Meter()
    assert template.evaluate(SCOPE, meter) is SCOPE["rows"]
    assert (meter.fuel, meter.memory) == (FUEL_MAX, MEMORY_MAX)


def test_there_are_at_least_150_payloads() -> None:
    tables = (ATTRIBUTES, CALLS, UNKNOWN, EXHAUSTION, UNREADABLE, STATEMENTS, LOOPS)
    assert len(ANSWERS) + sum(len(table) for table in tables) >= 150
