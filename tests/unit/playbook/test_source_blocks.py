"""Every code block of the source documents stands word for word in a playbook that the tests run, or is listed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.source_documents import DOCUMENTS, SEEDS, Block, blocks, stands_in

ROOT = Path(__file__).parents[3]

# Blocks that are not part of a playbook, and the tests of their content.
NOT_RUN = {
    "000 §9.1": ("JSON of a reference in an event; 004 §7.4 replaces it", "tests/e2e/test_source_documents.py"),
    "000 §Appendix A": ("a grammar", "tests/unit/playbook/test_json_schema.py"),
    "002 §4.1": ("pseudo-code of the merge of specs", "tests/unit/playbook/test_spec.py"),
    "002 §5.2": ("JSON of an output", "tests/e2e/test_source_documents.py"),
    "003 §3.1": ("pseudo-code of the merge of specs", "tests/unit/playbook/test_spec.py"),
    "004 §7.4": ("the reference that a tool returns", "tests/e2e/test_source_documents.py"),
}
# Lines that a block needs to run and that stand inside it: the http task of 004 §3.3 has no url in the document.
ADDED = {"004 §3.3/2": ("input:", 'url: "{{ workload.api_url }}"')}


def playbooks_of(block: Block) -> list[str]:
    return [
        file.stem
        for file in sorted(SEEDS.glob(f"{block.name[:3]}_*.yaml"))
        if stands_in(block, file.read_text("utf-8"), ADDED.get(block.name, ()))
    ]


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_a_block_stands_in_a_playbook_as_written_or_cannot_run(block: Block) -> None:
    section = block.name.partition("§")[2].partition("/")[0]
    of_its_section = [name for name in playbooks_of(block) if name[4:].startswith(f"{section}_")]
    assert bool(of_its_section) != (block.name in NOT_RUN)


def test_the_tables_name_existing_blocks() -> None:
    assert {*NOT_RUN, *ADDED} <= {block.name for block in blocks()}
    assert [file for _, file in NOT_RUN.values() if not (ROOT / file).is_file()] == []


def test_all_blocks_of_the_five_documents_are_found() -> None:
    assert [document.stem for document in DOCUMENTS] == ["000", "001", "002", "003", "004"]
    assert [sum(block.name.startswith(stem) for block in blocks()) for stem in ("000", "001", "002", "003", "004")] == [
        6, 3, 10, 10, 10,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "playbook", "word", "other"),
    [
        ("001 §14", "001_14_loop_pagination_sink", "hasMore", "more"),
        ("003 §12", "003_12_streaming_pagination", "attempts: 5", "attempts: 6"),
        ("003 §5.4", "003_5.4_task_policy", "backoff: exponential", "backoff: fixed"),
        ("004 §7.5", "004_7.5_resolve", "kind: resolve", "kind: noop"),
    ],
)
def test_a_playbook_with_another_word_does_not_contain_the_block(
    name: str, playbook: str, word: str, other: str
) -> None:
    [block] = [block for block in blocks() if block.name == name]
    text = (SEEDS / f"{playbook}.yaml").read_text("utf-8")
    assert stands_in(block, text)
    assert not stands_in(block, text.replace(word, other))
