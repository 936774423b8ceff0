"""The language on one page: its size, its example, and what it must name."""

from __future__ import annotations

import pytest

from noetl.checks.checker import check
from noetl.editor.formatting import format_playbook
from noetl.playbook.language import DIRECTIVES, SCOPES
from noetl.template.compile import FILTERS
from noetl.tool import Tools
from noetl.views.language_card import EXAMPLE, TOKENS_MAX, estimated_tokens, language_card

KINDS = Tools.installed().kinds()
CARD = language_card(KINDS)


def test_the_page_fits_into_a_prompt() -> None:
    assert TOKENS_MAX / 2 < estimated_tokens(CARD) <= TOKENS_MAX


def test_the_example_is_correct_and_formatted() -> None:
    assert [problem for problem in check(EXAMPLE, KINDS).problems if problem.severity != "info"] == []
    assert format_playbook(EXAMPLE, KINDS).text == EXAMPLE


@pytest.mark.parametrize(
    "names", [KINDS, SCOPES, FILTERS, DIRECTIVES], ids=["kinds", "scopes", "filters", "directives"]
)
def test_it_names_everything(names: dict[str, object]) -> None:
    aliases = {"d", "e", "count", "string"}  # other names of filters, of which the page has one
    assert [name for name in names if name not in CARD and name not in aliases] == []
