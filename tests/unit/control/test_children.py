"""Which playbook a call means: its version, or what starts now (D83)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from noetl.adapters.sqlite.catalog import SqliteCatalog
from noetl.adapters.sqlite.database import Database
from noetl.control.children import version_of
from noetl.control.playbooks import Playbooks
from noetl.errors import NotFound, PlaybookError
from noetl.output import JSON
from noetl.ports import PlaybookText
from tests.playbooks import HEAD, kinds
from tests.unit.adapters.sqlite_files import on_file


@pytest.mark.parametrize(
    ("wanted", "version"),
    [(None, None), ("latest", None), (1, 1), (12, 12), ("3", 3), ("007", 7)],
)
def test_a_version_is_a_number_from_one_or_the_latest(wanted: JSON, version: int | None) -> None:
    assert version_of(wanted) == version


@pytest.mark.parametrize(
    "wanted", [0, -1, True, False, 1.0, "0", "-1", "1.0.0", "²", "٣", "", " 1", "9" * 19, [1], {"a": 1}]
)
def test_whatever_else_is_told_to_be_no_version(wanted: JSON) -> None:
    with pytest.raises(NotFound, match="is not a playbook version"):
        version_of(wanted)


def test_a_version_is_looked_up_in_the_catalog_and_never_beside_the_caller(tmp_path: Path) -> None:
    def text(path: str, says: str) -> str:
        head = HEAD.replace("path: t", f"path: {path}")
        return f"{head}workflow: [{{step: start, tool: {{kind: noop, input: {{says: {says}}}}}}}]\n"

    async def work(database: Database) -> None:
        books = Playbooks(SqliteCatalog(database), kinds(), lambda path: path.read_text("utf-8"))
        caller = await books.add(text("caller", "x"), str(tmp_path / "caller.yaml"))
        first, second = [await books.add(text("child", says), None) for says in ("one", "two")]
        (tmp_path / "child").write_text(text("child", "three"), "utf-8")
        assert [await books.find("child", caller, number) for number in (1, 2)] == [first, second]
        assert await books.find("child", None) == second
        beside = await books.find("child", caller)
        assert beside not in (first, second)
        assert await books.find("child", caller, 3) == beside, "what ran from a file is a version, too"
        with pytest.raises(NotFound, match="no version 4"):
            await books.find("child", caller, 4)

    on_file(tmp_path / "noetl.db", work)


def test_text_of_the_catalog_that_an_earlier_release_accepted_still_runs_d111(tmp_path: Path) -> None:
    """0.1.0 called it sound: an execution of it must be able to end."""
    again = "{kind: http, url: x, spec: {policy: {rules: [{else: {then: {do: jump, to: start_task}}}]}}}"
    text = f"{HEAD}workflow: [{{step: start, tool: {again}}}]\n"
    digest = hashlib.sha256(text.encode()).hexdigest()

    async def work(database: Database) -> None:
        catalog = SqliteCatalog(database)
        await catalog.put(PlaybookText(digest, "t", text, None))
        books = Playbooks(catalog, kinds())
        assert (await books.by_digest(digest)).digest == digest
        with pytest.raises(PlaybookError, match="endless-jump"):
            await Playbooks(catalog, kinds()).add(text, None)

    on_file(tmp_path / "noetl.db", work)
