"""Logs of every release are still read, folded, audited and decided as they were when they were written."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

import noetl
from noetl.engine import Agenda, handle
from noetl.engine.facts import Fact
from noetl.engine.state import State
from noetl.output import JSON
from noetl.testing.audit import audit
from noetl.views.replay import canonical
from tests.replay.histories import EXECUTION, facts_of, files, read, releases, state_of

LATER = {"added_later": {"by": "a newer version"}}
STRUCTS = ("output", "error", "token", "until")  # fields of facts that hold a struct of their own
THIS = ".".join(noetl.__version__.split(".")[:2])
every_history = pytest.mark.parametrize("path", files(), ids=lambda path: f"{path.parent.name}/{path.stem}")


@every_history
def test_a_history_is_sound_and_folds_to_the_state_that_it_folded_to(path: Path) -> None:
    state = audit(EXECUTION, read(path).rows())
    assert msgspec.json.decode(canonical(state)) == state_of(path)


@every_history
def test_the_engine_decides_as_it_decided_then(path: Path) -> None:
    history = read(path)
    program = history.program()
    state = State(execution_id=EXECUTION)
    agenda: Agenda = {}
    for append in history.appends:
        events = handle(program, state, append.asked(), append.at, agenda)
        assert events[0].seq == append.first_seq
        assert tuple(event.fact for event in events) == append.row().facts


@every_history
def test_fields_that_a_newer_version_has_added_are_passed_over(path: Path) -> None:
    for append in read(path).appends:
        later = [grown(fact) for fact in msgspec.json.decode(append.facts)]
        assert facts_of(msgspec.json.encode(later)) == facts_of(append.facts)


def test_every_kind_of_fact_has_happened_in_the_histories_of_each_release() -> None:
    for release in releases():
        seen = [type(fact) for path in files(release) for row in read(path).rows() for fact in row.facts]
        assert len(files(release)) >= 50
        if release == THIS:  # an older one had fewer
            assert set(seen) == set(get_args(Fact))


def test_there_are_histories_of_this_release() -> None:
    assert "dev" in noetl.__version__ or THIS in releases()


def grown(fact: JSON) -> JSON:
    """The same with a field more, in it and in the structs that it holds."""
    parts = {name: grown(fact[name]) for name in STRUCTS if isinstance(fact.get(name), dict)}
    return {**fact, **parts, **LATER}
