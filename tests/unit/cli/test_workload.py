"""`--set` and `--workload` (D77)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.cli.workload import parse_value, read_ctx, read_workload, undeclared
from noetl.output import JSON
from noetl.playbook.source import parse
from noetl.session.declared import declared_in
from noetl.session.errors import UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("yes", "yes"),
        ("true", True),
        ("", None),
        ("[1, {a: 'b=c'}]", [1, {"a": "b=c"}]),
        ("https://x.example/?a=1", "https://x.example/?a=1"),
        ('"{{ not a template }}"', "{{ not a template }}"),
    ],
)
def test_values_are_yaml(text: str, value: JSON) -> None:
    """D77."""
    assert read_workload(None, [f"a={text}"]).values == {"a": value}
    assert parse_value(text, "--data") == value


def test_keys_go_deep_and_later_ones_beat_earlier_ones(tmp_path: Path) -> None:
    """D77."""
    file = tmp_path / "w.yaml"
    file.write_text("a: {b: 1, c: 2}\nd: [1, 2]\n")
    sets = ["a.b=3", "a.b=4", "e.f.g=5", "d=[3]", "x=1", "x.y=2"]
    assert read_workload(str(file), sets).values == {
        "a": {"b": 4, "c": 2}, "d": [3], "e": {"f": {"g": 5}}, "x": {"y": 2},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("novalue", '--set "novalue": write it as key=value'),
        ("=1", '--set: "" is not a key; write it as name or name.inner'),
        ("a..b=1", '--set: "a..b" is not a key; write it as name or name.inner'),
        ("a.=1", '--set: "a." is not a key; write it as name or name.inner'),
        (f"{'a.' * 64}a=1", f'--set: the key "{"a." * 19}a…" is more than 64 levels deep'),
        ("a=99999999999999999999", None),
        ("a=*x", None),
        ("a={", None),
        ("a=" + "[" * 100, None),
        ("\udcff=1", None),
        ("a=\udcff", None),
        ("a=!!int 3", None),
        ("a=&x [*x]", None),
    ],
)
def test_what_can_not_be_read_says_where(given: str, message: str | None) -> None:
    with pytest.raises(UsageError, match="--set") as error:
        read_workload(None, [given])
    assert message in (None, str(error.value))


def test_keys_that_nobody_declared_are_told_with_what_may_be_meant() -> None:
    """D77."""
    declared = {"name": "x", "options": {"depth": 1}, "free": {}}
    given = {"nam": 1, "options": {"dpth": 2, "depth": 3}, "free": {"any": 1}, "zzz": 0, "name": {"a": 1}}
    assert list(undeclared(declared, given)) == [
        'the playbook\'s workload has no "nam"; did you mean "name"?',
        'the playbook\'s workload has no "options.dpth"; did you mean "options.depth"?',
        'the playbook\'s workload has no "zzz"',
    ]


def test_first_values_of_ctx_are_yaml_and_merged() -> None:
    assert read_ctx(["page=1", "city.name=Bern", "city.id=7", "page=2"]).values == {
        "page": 2, "city": {"name": "Bern", "id": 7},
    }  # fmt: skip
    with pytest.raises(UsageError, match='--ctx "page": write it as key=value'):
        read_ctx(["page"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a: "{{ ctx.page }}"', None),
        ("set: {ctx.page: 1}", None),
        ("""a: "{{ ctx['page'] }}" """, None),
        ('a: "{{ ctx }}"', None),
        ('a: "{{ ctx.pages }}"', '--ctx: the playbook does not use "ctx.page"; did you mean "pages"?'),
        ("a: 1", '--ctx: the playbook does not use "ctx.page"; correct the key, or add --allow-extra'),
    ],
)
def test_a_name_of_ctx_that_the_playbook_does_not_use_is_refused(text: str, message: str | None) -> None:
    declared = declared_in(parse(text, "t").document)
    given = read_ctx(["page=1"])
    if message is None:
        assert given.values_for(declared) == {"page": 1}
    else:
        with pytest.raises(UsageError) as caught:
            given.values_for(declared)
        assert str(caught.value) == message
    assert given.values_for(declared, allow_extra=True) == {"page": 1}
