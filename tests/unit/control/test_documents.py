"""Playbooks that tasks make: checked, stored by digest, and run as children (D103)."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from noetl.adapters.sqlite.catalog import SqliteCatalog
from noetl.adapters.sqlite.database import Database
from noetl.control.children import PROBLEMS_MAX, TEXT_CHARS_MAX, refused_document
from noetl.control.playbooks import CHECKED_HERE_MAX, Playbooks
from noetl.engine.facts import ForChild, ForDocument, FrameParked
from noetl.errors import NotFound, PlaybookError
from noetl.output import JSON
from noetl.playbook.kinds import Kind
from noetl.testing import runtime
from tests.playbooks import HEAD, kinds
from tests.unit.adapters.sqlite_files import on_file

SHOP = "keychain: [{name: shop, kind: env, variable: SHOP}]\n"
CALLER = HEAD + SHOP + "workflow: [{step: start, tool: {kind: playbook, document: '{{ workload.plan }}'}}]\n"
PLAN = HEAD.replace("path: t", "path: plans/one") + "workflow: [{step: start, tool: {kind: noop, input: {a: 1}}}]\n"


def test_a_document_is_stored_by_its_digest_with_the_origin_of_its_caller(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        catalog = SqliteCatalog(database)
        books = Playbooks(catalog, kinds())
        caller = await books.add(CALLER, str(tmp_path / "caller.yaml"))
        program = await books.add_document(PLAN, caller)
        assert (program.playbook.path, program.folder) == ("plans/one", str(tmp_path))
        with pytest.raises(NotFound):
            await catalog.versions("plans/one")
        # Another process finds it, too.
        again = await Playbooks(SqliteCatalog(database), kinds()).by_digest(program.digest)
        assert (again.digest, again.folder) == (program.digest, program.folder)

    on_file(tmp_path / "noetl.db", work)


@pytest.mark.parametrize(
    ("keychain", "problems"),
    [
        (SHOP, []),
        ("", []),
        (SHOP.replace("variable: SHOP", "variable: HOME"), ["unknown-credential"]),
        (SHOP.replace("name: shop", "name: other"), ["unknown-credential"]),
        ("keychain: [{name: shop, kind: file, path: /etc/passwd}]\n", ["unknown-credential"]),
    ],
)
def test_a_document_gets_no_secret_that_its_caller_does_not_have(
    keychain: str, problems: list[str], tmp_path: Path
) -> None:
    async def work(database: Database) -> None:
        books = Playbooks(SqliteCatalog(database), kinds())
        caller = await books.add(CALLER, None)
        try:
            await books.add_document(PLAN + keychain, caller)
            found = []
        except PlaybookError as error:
            found = [each.code for each in error.problems]
        assert found == problems

    on_file(tmp_path / "noetl.db", work)


class WatchedKinds(dict[str, Kind]):
    """Notes the threads that read the kinds."""

    def __init__(self) -> None:
        super().__init__(kinds())
        self.threads: set[str] = set()

    def __getitem__(self, name: str) -> Kind:
        self.threads.add(threading.current_thread().name)
        return super().__getitem__(name)


def test_a_large_document_is_checked_beside_the_event_loop(tmp_path: Path) -> None:
    async def work(database: Database) -> None:
        watched = WatchedKinds()
        books = Playbooks(SqliteCatalog(database), watched)
        caller = await books.add(CALLER, None)
        for text, here in ((PLAN, True), (PLAN + f"workload: {{text: {'x' * CHECKED_HERE_MAX}}}\n", False)):
            watched.threads.clear()
            await books.add_document(text, caller)
            assert (threading.current_thread().name in watched.threads) == here

    on_file(tmp_path / "noetl.db", work)


def test_the_answer_to_a_document_with_many_problems_stays_small() -> None:
    arcs = ", ".join(f"{{step: {'x' * 1_000}{number}}}" for number in range(2 * PROBLEMS_MAX))
    text = HEAD + f"workflow: [{{step: start, tool: {{kind: noop}}, next: {{arcs: [{arcs}]}}}}]\n"

    async def work() -> JSON:
        async with runtime({"caller": CALLER}) as memory:
            return (await memory.run("caller", {"plan": text})).error

    error = asyncio.run(work())
    found = error.details["problems"]
    assert (error.kind, len(found)) == ("playbook", PROBLEMS_MAX)
    assert max(len(each[key]) for each in found for key in ("message", "source")) == TEXT_CHARS_MAX
    assert error.message.startswith(f"the document has {2 * PROBLEMS_MAX} problems, the first at 4:")
    assert refused_document((), "").error is not None


def test_a_document_runs_as_a_child_and_what_is_none_starts_none() -> None:
    async def work() -> None:
        async with runtime({"caller": CALLER}) as memory:
            done = await memory.run("caller", {"plan": PLAN})
            assert (done.status, done.output) == ("ok", {"a": 1})
            (parked,) = [e.fact for e in memory.log(done.id) if isinstance(e.fact, FrameParked)]
            assert isinstance(parked.until, ForChild)
            child = memory.state(parked.until.execution_id)
            assert (child.path, child.digest, child.depth) == ("plans/one", parked.until.digest, 1)
            assert PLAN not in json.dumps(str(parked)), "the text is in the catalog only"
            wrong = await memory.run("caller", {"plan": [PLAN]})
            assert (wrong.status, wrong.error and wrong.error.kind) == ("error", "playbook")
            (parked,) = [e.fact for e in memory.log(wrong.id) if isinstance(e.fact, FrameParked)]
            assert isinstance(parked.until, ForDocument)

    asyncio.run(work())


def test_documents_that_call_documents_reach_the_limit_of_the_depth() -> None:
    inner = "workflow: [{step: start, tool: {kind: playbook, document: '{{ workload.plan }}', input: {plan: '{{ workload.plan }}'}}}]\n"
    text = HEAD + "workload: {plan: ''}\n" + inner

    async def work() -> None:
        async with runtime({"caller": text}) as memory:
            done = await memory.run("caller", {"plan": text})
            assert done.error is not None
            assert (done.error.kind, "limits.depth" in done.error.message) == ("playbook", True)

    asyncio.run(work())
