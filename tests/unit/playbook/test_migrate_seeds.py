"""The examples of the seed documents are migrated without errors; the whole texts are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.checks.checker import check
from noetl.playbook.migrate import Migration, migrate
from tests.playbooks import kinds

FIXTURES = Path(__file__).parents[2] / "fixtures"
EXAMPLES = Path(__file__).parents[3] / "examples"
SEEDS = sorted(path.stem for path in (FIXTURES / "seeds").glob("*.yaml"))
AFTER = {
    path.name.removeprefix("seed_").removesuffix(".after.yaml"): path
    for path in (FIXTURES / "migrate").glob("seed_*.after.yaml")
}


def seed(name: str) -> str:
    return (FIXTURES / "seeds" / f"{name}.yaml").read_text("utf-8")


@pytest.mark.parametrize("name", SEEDS)
def test_an_example_of_the_seeds_becomes_canonical(name: str) -> None:
    before = seed(name)
    after = AFTER[name].read_text("utf-8") if name in AFTER else before
    assert migrate(before).text == after


@pytest.mark.parametrize("name", SEEDS)
def test_the_check_finds_no_error_in_a_migrated_example_of_the_seeds(name: str) -> None:
    assert check(migrate(seed(name)).text, kinds()).errors == ()


@pytest.mark.parametrize("name", [name for name in SEEDS if name.startswith("004")])
def test_examples_of_the_canonical_document_are_left_alone(name: str) -> None:
    assert migrate(seed(name)) == Migration(seed(name), "canonical", (), False)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_our_own_examples_are_left_alone(path: Path) -> None:
    text = path.read_text("utf-8")
    assert migrate(text) == Migration(text, "canonical", (), False)


def test_every_expected_text_belongs_to_an_example() -> None:
    assert set(AFTER) <= set(SEEDS)


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("000_6.2_eval_structure", "v2"),
        ("000_8.1_next", "v2"),
        ("001_14_loop_pagination_sink", "v2"),
        ("002_3.1_labelled_tasks", "v10"),
        ("003_12_streaming_pagination", "v10"),
        ("003_7.3_single_tool", "v10"),
        ("003_7.2_unnamed_tasks", "canonical"),
    ],
)
def test_the_dialect_of_an_example_is_known(name: str, dialect: str) -> None:
    assert migrate(seed(name)).dialect == dialect
