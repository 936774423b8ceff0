"""`noetl lsp` as an editor uses it: a client on the pipes of the process drives every feature."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

import noetl
from noetl.checks.checker import check
from noetl.editor.highlight import TOKEN_KINDS
from noetl.tool import Tools

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))
KINDS = Tools.installed().kinds()
DEADLINE_S = 60
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t, path: t }\n\n"
TEXT = (
    HEAD
    + """\
keychain:
  - { name: shop, kind: bearer, token: x }

workload: { url: "http://127.0.0.1" }

workflow:
  - step: start
    tool:
      - name: fetch
        kind: http
        auth: shop
        url: "{{ workload.url }}"
        spec:
          policy:
            rules:
              - when: "{{ output.status == 'error' }}"
                then: { do: jump, to: fetch }
              - else:
                  then: { do: break }
      - name: second
        kind: noop
        input: { x: "é {{ fetch.data.x }}" }
    set: { ctx.total: "{{ output.data }}" }
    next:
      arcs:
        - step: report

  - step: report
    tool: { kind: noop, input: { total: "{{ ctx.total }}" } }
"""
)
WRONG = TEXT.replace("- step: report\n\n", "- step: repot\n\n")


class Client:
    """An editor with one open text."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.text = ""
        self.uri = "file:///t.yaml"
        self.version = 0
        self.published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()

    @property
    def document(self) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri)

    async def open(self, text: str) -> list[lsp.Diagnostic]:
        self.text, self.version = text, self.version + 1
        item = lsp.TextDocumentItem(self.uri, "yaml", self.version, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.diagnostics()

    def insert(self, before: str, text: str) -> None:
        """Type a text behind the first occurrence of `before`."""
        offset = self.text.index(before) + len(before)
        at = self.at(offset)
        self.text = self.text[:offset] + text + self.text[offset:]
        self.version += 1
        document = lsp.VersionedTextDocumentIdentifier(version=self.version, uri=self.uri)
        change = lsp.TextDocumentContentChangePartial(range=lsp.Range(at, at), text=text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    async def diagnostics(self) -> list[lsp.Diagnostic]:
        """Those of the current version."""
        while True:
            found = await self.published.get()
            if found.version == self.version:
                return list(found.diagnostics)

    def at(self, offset: int) -> lsp.Position:
        before = self.text[:offset]
        return lsp.Position(before.count("\n"), len(before[before.rfind("\n") + 1 :].encode("utf-16-le")) // 2)

    def behind(self, words: str) -> lsp.Position:
        return self.at(self.text.index(words) + len(words))

    def quoted(self, span: lsp.Range) -> str:
        """The text of a range, with its line."""
        line = self.text.split("\n")[span.start.line].encode("utf-16-le")
        return line[2 * span.start.character : 2 * span.end.character].decode("utf-16-le")

    def edited(self, edits: list[lsp.TextEdit]) -> str:
        lines = [line.encode("utf-16-le") for line in self.text.split("\n")]
        starts = [sum(len(line) + 2 for line in lines[:index]) for index in range(len(lines))]
        made = self.text.encode("utf-16-le")
        for edit in sorted(edits, key=lambda each: (each.range.start.line, each.range.start.character), reverse=True):
            begin, end = (starts[at.line] + 2 * at.character for at in (edit.range.start, edit.range.end))
            made = made[:begin] + edit.new_text.encode("utf-16-le") + made[end:]
        return made.decode("utf-16-le")

    def memory_mib(self) -> float:
        """The largest resident set of the server so far."""
        process = self.client._server  # the client has no other way to its process
        assert process is not None
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) / 1024

    async def hovered(self, words: str) -> str:
        params = lsp.HoverParams(self.document, self.behind(words))
        found = await self.client.text_document_hover_async(params)
        assert found is not None
        assert isinstance(found.contents, lsp.MarkupContent)
        return found.contents.value

    async def lenses(self) -> list[tuple[int, str, str, list[object]]]:
        """Line, title, command and arguments of each."""
        found = await self.client.text_document_code_lens_async(lsp.CodeLensParams(self.document)) or []
        commands = [(each.range.start.line, each.command) for each in found]
        return [(at, made.title, made.command, list(made.arguments or ())) for at, made in commands if made is not None]

    async def coloured(self) -> list[tuple[str, str]]:
        """The kind and the text of each token."""
        tokens = await self.client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(self.document))
        assert tokens is not None
        line, column, found = 0, 0, list[tuple[str, str]]()
        for index in range(0, len(tokens.data), 5):
            down, right, length, kind = tokens.data[index : index + 4]
            line, column = line + down, right if down else column + right
            span = lsp.Range(lsp.Position(line, column), lsp.Position(line, column + length))
            found.append((TOKEN_KINDS[kind], self.quoted(span)))
        return found

    async def completions(self, words: str) -> dict[str, lsp.CompletionItem]:
        found = await self.client.text_document_completion_async(
            lsp.CompletionParams(self.document, self.behind(words))
        )
        assert isinstance(found, lsp.CompletionList)
        return {item.label: item for item in found.items}


@asynccontextmanager
async def editor(*options: str) -> AsyncIterator[Client]:
    client = LanguageClient("tests", "1")
    made = Client(client)

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]  # of pygls
    def published(params: lsp.PublishDiagnosticsParams) -> None:
        made.published.put_nowait(params)

    await client.start_io(sys.executable, "-m", "noetl", "lsp", *options)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
            client.initialized(lsp.InitializedParams())
            yield made
            await client.shutdown_async(None)
    finally:
        client.exit(None)
        await client.stop()  # type: ignore[no-untyped-call]  # of pygls


def drive(work: Callable[[Client], Awaitable[None]], *options: str) -> None:
    async def whole() -> None:
        async with editor(*options) as client:
            await work(client)

    asyncio.run(whole())


def test_diagnostics_are_the_problems_of_check_and_follow_the_text() -> None:
    async def work(client: Client) -> None:
        found = await client.open(WRONG)
        expected = check(WRONG, KINDS).problems
        assert [(each.code, each.message) for each in found] == [(each.code, each.message) for each in expected]
        wrong = next(each for each in found if each.code == "unknown-step")
        assert (client.quoted(wrong.range), wrong.severity) == ("repot", lsp.DiagnosticSeverity.Error)
        client.insert("- step: repo", "r")
        assert "unknown-step" not in [each.code for each in await client.diagnostics()]
        client.insert("workflow:", " [")
        assert [each.code for each in await client.diagnostics()] == ["yaml-syntax"]

    drive(work)


def test_a_fix_is_an_edit() -> None:
    async def work(client: Client) -> None:
        await client.open(WRONG)
        at = client.behind("- step: repot")
        params = lsp.CodeActionParams(client.document, lsp.Range(at, at), lsp.CodeActionContext([]))
        actions = await client.client.text_document_code_action_async(params)
        assert actions is not None
        (action,) = actions
        assert isinstance(action, lsp.CodeAction)
        assert action.edit is not None
        assert action.edit.changes is not None
        assert client.edited(list(action.edit.changes[client.uri])) == TEXT

    drive(work)


def test_completion_of_keys_values_names_and_templates() -> None:
    async def work(client: Client) -> None:
        await client.open(TEXT)
        assert {"timeout", "validate", "retry"} <= (await client.completions("        spec:\n          ")).keys()
        assert (await client.completions("{ do: ju")).keys() == {"jump"}
        assert (await client.completions("        - step: re")).keys() == {"report"}
        assert (await client.completions("auth: sh")).keys() == {"shop"}
        assert (await client.completions("jump, to: f")).keys() == {"fetch"}
        assert (await client.completions("- name: fetch\n        kind: ht")).keys() == {"http"}
        assert (await client.completions("{{ ctx.")).keys() == {"ctx.total"}
        assert (await client.completions("{{ workload.u")).keys() == {"workload.url"}
        assert "fetch.data" in await client.completions("{{ fetch.d")
        client.insert("{{ ctx.total ", "| def")
        found = await client.completions("{{ ctx.total | def")
        assert found.keys() == {"default"}
        assert found["default"].detail == 'any|default(default_value: any = "", boolean: bool = false)'

    drive(work)


def test_completion_knows_the_names_of_a_text_that_is_not_valid_yaml_now() -> None:
    async def work(client: Client) -> None:
        await client.open(TEXT)
        client.insert("      arcs:\n", "        - { step: re\n")
        assert [each.code for each in await client.diagnostics()] == ["yaml-syntax"]
        assert (await client.completions("        - { step: re")).keys() == {"report"}

    drive(work)


def test_hover_explains_keys_tools_filters_and_scopes() -> None:
    async def work(client: Client) -> None:
        await client.open(TEXT.replace("ctx.total }}", "ctx.total | default(1) }}"))

        async def words(before: str) -> str:
            found = await client.client.text_document_hover_async(
                lsp.HoverParams(client.document, client.behind(before))
            )
            assert found is not None
            assert isinstance(found.contents, lsp.MarkupContent)
            return found.contents.value

        assert "settings and rules" in await words("        spe")
        assert "Sends one HTTP request" in await words("kind: htt")
        assert "any|default(" in await words("ctx.total | defa")
        line = 1 + client.text[: client.text.index("set: { ctx.total")].count("\n")
        assert f"is written on line {line}" in await words('total: "{{ ctx.tot')

    drive(work)


def test_definitions_references_and_renaming() -> None:
    async def work(client: Client) -> None:
        await client.open(TEXT)
        at = client.behind("        - step: rep")
        there = await client.client.text_document_definition_async(lsp.DefinitionParams(client.document, at))
        assert isinstance(there, list)
        (place,) = there
        assert isinstance(place, lsp.Location)
        assert client.text.split("\n")[place.range.start.line] == "  - step: report"
        context = lsp.ReferenceContext(include_declaration=True)
        task = client.behind("- name: fet")
        found = await client.client.text_document_references_async(lsp.ReferenceParams(context, client.document, task))
        assert found is not None
        assert [client.quoted(each.range) for each in found] == ["fetch"] * 3
        edit = await client.client.text_document_rename_async(lsp.RenameParams(client.document, task, "load"))
        assert edit is not None
        assert edit.changes is not None
        made = client.edited(list(edit.changes[client.uri]))
        assert made == TEXT.replace("name: fetch", "name: load").replace("to: fetch", "to: load").replace(
            "{{ fetch.", "{{ load."
        )
        for new, reason in (("second", "already a task"), ("9 x", "not a name"), ("ctx", "is a scope")):
            with pytest.raises(JsonRpcException, match=reason):
                await client.client.text_document_rename_async(lsp.RenameParams(client.document, task, new))

    drive(work)


def test_outline_folding_layout_and_colours() -> None:
    async def work(client: Client) -> None:
        await client.open(TEXT.replace("auth: shop", "auth:   shop"))
        symbols = await client.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(client.document))
        assert symbols is not None
        workflow = next(each for each in symbols if each.name == "workflow")
        assert isinstance(workflow, lsp.DocumentSymbol)
        assert workflow.children is not None
        steps = [(each.name, [task.name for task in each.children or ()]) for each in workflow.children]
        assert steps == [("start", ["fetch", "second"]), ("report", [])]
        folds = await client.client.text_document_folding_range_async(lsp.FoldingRangeParams(client.document))
        assert folds is not None
        first = client.text.split("\n").index("  - step: start")
        assert (first, client.text.split("\n").index("        - step: report")) in [
            (each.start_line, each.end_line) for each in folds
        ]
        edits = await client.client.text_document_formatting_async(
            lsp.DocumentFormattingParams(client.document, lsp.FormattingOptions(tab_size=2, insert_spaces=True))
        )
        assert edits is not None
        assert client.edited(list(edits)) == TEXT
        tokens = await client.client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(client.document))
        assert tokens is not None
        assert len(tokens.data) % 5 == 0
        line, column, names = 0, 0, []
        for index in range(0, len(tokens.data), 5):
            down, right, length = tokens.data[index : index + 3]
            line, column = line + down, right if down else column + right
            span = lsp.Range(lsp.Position(line, column), lsp.Position(line, column + length))
            names.append(client.quoted(span))
        assert names[:2] == ["workload", "url"]
        assert names[-2:] == ["ctx", "total"]
        assert "'error'" in names
        assert names[names.index("fetch") : names.index("fetch") + 3] == ["fetch", "data", "x"]

    drive(work)


CODE = (
    HEAD
    + """\
workflow:
  - step: start
    tool:
      - name: load
        kind: sqlite
        input: { path: x.db, query: "SELECT count(*) FROM t WHERE a = {{ workload.a }} -- all" }
      - name: add
        kind: python
        input: { rows: "{{ load.data }}" }
        code: |
          def main(rows):
              # the sum
              return {"sum": sum(row["é"] for row in rows), "n": 2}
"""
)


def test_code_and_sql_have_colours_beside_those_of_templates() -> None:
    async def work(client: Client) -> None:
        await client.open(CODE)
        assert await client.coloured() == [
            ("keyword", "SELECT"), ("function", "count"), ("keyword", "FROM"), ("keyword", "WHERE"),
            ("namespace", "workload"), ("property", "a"), ("comment", "-- all"), ("variable", "load"),
            ("property", "data"), ("keyword", "def"), ("function", "main"), ("comment", "# the sum"),
            ("keyword", "return"), ("string", '"sum"'), ("function", "sum"), ("string", '"é"'), ("keyword", "for"),
            ("keyword", "in"), ("string", '"n"'), ("number", "2"),
        ]  # fmt: skip

    drive(work)


LAST = (
    HEAD.replace("path: t", "path: last")
    + """\
workload: { name: Ada }

workflow:
  - step: start
    tool: { kind: noop, input: { text: "hello {{ workload.name }}" } }
    set: { ctx.greeting: { text: "{{ output.data.text }}" } }
    next:
      arcs:
        - step: after

  - step: after
    tool: { kind: noop, input: { text: "{{ ctx.greeting.text }}" } }
"""
)


def test_actions_and_last_values_come_from_the_newest_execution(tmp_path: Path) -> None:
    file, database = tmp_path / "last.yaml", str(tmp_path / "x.db")
    file.write_text(LAST)
    (tmp_path / "last.test.yaml").write_text("playbook: last.yaml\ntests:\n  - name: it greets\n")
    noetl.run(file, workload={"name": "Bob"}, database=database)
    id = noetl.run(file, workload={"name": "Eve"}, database=database).id

    async def work(client: Client) -> None:
        client.uri = file.as_uri()
        await client.open(LAST)
        test = (tmp_path / "last.test.yaml").as_uri()
        found = await client.lenses()
        assert [each[1:] for each in found[:4]] == [
            ("▶ Run", "noetl.run", [client.uri]),
            ("Debug", "noetl.debug", [client.uri]),
            ("Test", "noetl.test", [test]),
            ("Last: ok", "noetl.show", [id]),
        ]
        assert [(client.text.split("\n")[line], title[:3]) for line, title, *_ in found[4:]] == [
            ("  - step: start", "ok,"), ("  - step: after", "ok,"),
        ]  # fmt: skip
        assert "hello Eve" in await client.hovered("{{ ctx.greeting.te")
        assert "Eve" in await client.hovered("hello {{ workload.na")
        assert "text: hello Eve" in await client.hovered("        - step: aft")
        client.insert("- step: start", "x")
        assert [title for _, title, *_ in await client.lenses()][:2] == ["Test", "Last: ok"]  # it has errors now

    drive(work, "--db", database)


def test_a_test_file_has_its_own_problems_and_actions(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        client.uri = (tmp_path / "a.test.yaml").as_uri()
        text = "playbook: a.yaml\ntests:\n  - name: one\n  - name: two\n    expects: { status: ok }\n"
        (problem,) = await client.open(text)
        assert (problem.code, problem.range.start.line) == ("unknown-key", 4)
        assert [(line, title, arguments) for line, title, _, arguments in await client.lenses()] == [
            (0, "▶ Run all tests", [client.uri]),
            (2, "▶ Run this test", [client.uri, "one"]),
            (3, "▶ Run this test", [client.uri, "two"]),
        ]
        client.uri = "file:///compose.yaml"
        assert await client.open("services: { a: 1 }\n") == []  # it is not a playbook

    drive(work)


def test_the_definition_of_a_child_playbook_is_its_file() -> None:
    async def work(client: Client) -> None:
        caller = ROOT / "examples" / "child_playbooks.yaml"
        client.uri = caller.as_uri()
        await client.open(caller.read_text())
        at = client.behind("path: child_playbooks_bra")
        found = await client.client.text_document_definition_async(lsp.DefinitionParams(client.document, at))
        assert isinstance(found, list)
        assert [each.uri for each in found if isinstance(each, lsp.Location)] == [
            (ROOT / "examples" / "child_playbooks_branch.yaml").as_uri()
        ]

    drive(work)


def test_every_example_has_the_problems_of_check_and_its_layout() -> None:
    async def work(client: Client) -> None:
        for file in EXAMPLES:
            client.uri = file.as_uri()
            text = file.read_text()
            found = await client.open(text)
            assert [each.code for each in found] == [each.code for each in check(text, KINDS).problems], file
            options = lsp.FormattingOptions(tab_size=2, insert_spaces=True)
            edits = await client.client.text_document_formatting_async(
                lsp.DocumentFormattingParams(client.document, options)
            )
            assert not edits, file
            symbols = await client.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(client.document))
            assert symbols is not None
            assert "workflow" in [each.name for each in symbols]

    drive(work)


def test_a_thousand_steps_are_served_within_little_memory() -> None:
    async def work(client: Client) -> None:
        steps = [
            f'  - step: s{number}\n    tool: {{ kind: noop, input: {{ x: "{{{{ ctx.v{number - 1} }}}}" }} }}\n'
            f'    set: {{ ctx.v{number}: "{{{{ output.data.x }}}}" }}\n    next:\n      arcs:\n        - step: s{number + 1}\n'
            for number in range(1, 1_001)
        ]
        text = (
            HEAD + "executor: { spec: { entry_step: s1 } }\n\nworkflow:\n" + "\n".join(steps)
            + "\n  - step: s1001\n    set: { ctx.v0: 1 }\n"
        )  # fmt: skip
        assert [each.code for each in await client.open(text) if each.severity == lsp.DiagnosticSeverity.Error] == []
        client.insert("        - step: s900", "x")
        found = [each.code for each in await client.diagnostics()]
        assert "unknown-step" in found
        assert "s1000" in await client.completions("        - step: s1000")
        assert (await client.completions("{{ ctx.v998")).keys() == {"ctx.v998"}
        symbols = await client.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(client.document))
        assert symbols is not None
        step = client.behind("  - step: s77")
        edit = await client.client.text_document_rename_async(lsp.RenameParams(client.document, step, "seven"))
        assert edit is not None
        assert edit.changes is not None
        assert len(edit.changes[client.uri]) == 2
        assert client.memory_mib() < 150

    drive(work)
