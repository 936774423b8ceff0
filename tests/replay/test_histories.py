"""The logs of every release are read, folded, audited and decided as in that release."""

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
from noetl.testing.scenario import audit
from noetl.views.replay import canonical
from tests.replay.histories import EXECUTION, facts_of, files, read, releases, state_of

LATER = {"added_later": {"by": "a newer version"}}
STRUCTS = ("output", "error", "token", "until")  # fields of facts that contain a struct
THIS = ".".join(noetl.__version__.split(".")[:2])
every_history = pytest.mark.parametrize("path", files(), ids=lambda path: f"{path.parent.name}/{path.stem}")


@every_history
def test_a_history_passes_the_audit_and_folds_to_its_state(path: Path) -> None:
    state = audit(EXECUTION, read(path).rows())
    frozen = state_of(path)
    fresh = msgspec.json.decode(canonical(State(execution_id=EXECUTION)))
    found = msgspec.json.decode(canonical(state))
    found = {key: each for key, each in found.items() if key in frozen or each != fresh[key]}
    assert without_additions(found, frozen) == frozen


def without_additions(state: JSON, frozen: JSON) -> JSON:
    """The state without the fields that a later release has added, where they have their defaults."""
    if isinstance(state, dict) and isinstance(frozen, dict):
        known = {key: each for key, each in state.items() if key in frozen or each not in (False, None, 0, "", [], {})}
        return {key: without_additions(each, frozen.get(key)) for key, each in known.items()}
    if isinstance(state, list) and isinstance(frozen, list) and len(state) == len(frozen):
        return [without_additions(new, old) for new, old in zip(state, frozen, strict=True)]
    return state


@every_history
def test_the_engine_makes_the_same_decisions(path: Path) -> None:
    history = read(path)
    program = history.program()
    state = State(execution_id=EXECUTION)
    agenda: Agenda = {}
    for append in history.appends:
        events = handle(program, state, append.decoded_command(), append.at, agenda)
        assert events[0].seq == append.first_seq
        assert tuple(event.fact for event in events) == append.row().facts


@every_history
def test_fields_of_a_newer_version_are_ignored(path: Path) -> None:
    for append in read(path).appends:
        later = [grown(fact) for fact in msgspec.json.decode(append.facts)]
        assert facts_of(msgspec.json.encode(later)) == facts_of(append.facts)


def test_the_histories_of_each_release_have_every_kind_of_fact() -> None:
    for release in releases():
        seen = [type(fact) for path in files(release) for row in read(path).rows() for fact in row.facts]
        assert len(files(release)) >= 50
        if release == THIS:  # older releases had fewer
            assert set(seen) == set(get_args(Fact))


def test_this_release_has_histories() -> None:
    assert "dev" in noetl.__version__ or THIS in releases()


def grown(fact: JSON) -> JSON:
    """The fact with one more field, also in the structs inside of it."""
    parts = {name: grown(fact[name]) for name in STRUCTS if isinstance(fact.get(name), dict)}
    return {**fact, **parts, **LATER}
