"""Programs from the catalog: a text that an earlier release has accepted still runs."""

from __future__ import annotations

import asyncio

import pytest

from noetl.control.playbooks import CompiledPlaybooks
from noetl.errors import PlaybookError
from noetl.ports import PlaybookText
from tests.playbooks import HEAD, kinds

LATER = (
    HEAD
    + """\
workflow:
- step: start
  tool:
    kind: http
    url: https://example.com
    spec: {policy: {rules: [{when: "{{ output.http.wait == 1 }}", then: {do: retry}}, {else: {then: {do: fail}}}]}}
"""
)


class OneText:
    """A catalog with one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def get(self, digest: str) -> PlaybookText:
        return PlaybookText(digest, "t", self.text, None)


def test_a_registered_playbook_runs_even_if_a_later_check_refuses_it() -> None:
    program = asyncio.run(CompiledPlaybooks(OneText(LATER), kinds()).by_digest("d"))
    assert list(program.steps) == ["start"]


def test_a_new_playbook_with_the_same_text_is_refused() -> None:
    with pytest.raises(PlaybookError) as refused:
        CompiledPlaybooks(OneText(LATER), kinds()).compile("d", LATER, None)
    assert [each.code for each in refused.value.problems] == ["unknown-field"]


def test_a_registered_playbook_with_another_error_does_not_run() -> None:
    text = LATER.replace("start", "begin")
    with pytest.raises(PlaybookError) as refused:
        asyncio.run(CompiledPlaybooks(OneText(text), kinds()).by_digest("d"))
    assert [each.code for each in refused.value.problems] == ["no-start"]
