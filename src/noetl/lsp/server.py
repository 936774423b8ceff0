"""`noetl lsp`: the requests of an editor, answered by `noetl.editor`.

A text is checked in a thread after the last keystroke. Completion and hover use the latest check; requests that
change or name exact places wait for a check of the current text.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from noetl.editor.analysis import RENAMED, Analysis, Occurrence
from noetl.editor.completion import Option, OptionKind, complete
from noetl.editor.fixes import fix_edit, span_of
from noetl.editor.formatting import format_checked
from noetl.editor.highlight import TOKEN_KINDS, highlights
from noetl.editor.history import NewestExecution, step_at, step_text, value_at
from noetl.editor.hover import hover
from noetl.editor.lenses import Lens, lenses, suite_lenses
from noetl.editor.lookup import Lookup
from noetl.editor.outline import OutlineSymbol, SymbolKind, folds, outline
from noetl.errors import PlaybookError, Problem, Severity
from noetl.lsp.files import beside, child_file, is_playbook, is_suite, suite_problems
from noetl.lsp.positions import Positions
from noetl.output import JSON
from noetl.playbook.kinds import Kinds

DEBOUNCE_S: Final = 0.015  # after the last keystroke, before a check begins
GC_THRESHOLD: Final = 30_000  # objects between two collections of the youngest generation

_SEVERITIES: Final[dict[Severity, lsp.DiagnosticSeverity]] = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "info": lsp.DiagnosticSeverity.Information,
}
_OPTIONS: Final[dict[OptionKind, lsp.CompletionItemKind]] = {
    "key": lsp.CompletionItemKind.Property,
    "value": lsp.CompletionItemKind.EnumMember,
    "name": lsp.CompletionItemKind.Variable,
    "scope": lsp.CompletionItemKind.Module,
    "filter": lsp.CompletionItemKind.Function,
    "function": lsp.CompletionItemKind.Function,
}
_SYMBOLS: Final[dict[SymbolKind, lsp.SymbolKind]] = {
    "section": lsp.SymbolKind.Namespace,
    "step": lsp.SymbolKind.Class,
    "task": lsp.SymbolKind.Method,
    "block": lsp.SymbolKind.Function,
    "credential": lsp.SymbolKind.Key,
    "value": lsp.SymbolKind.Property,
}


class History(Protocol):
    """The executions of a database or a server."""

    async def newest(self, path: str) -> NewestExecution | None:
        """Of the playbook with this path; None: there is none, or it cannot be read."""
        ...

    async def output(self, execution_id: str, step: str) -> JSON: ...


class Editor(LanguageServer):
    """The open texts of one editor."""

    def __init__(self, kinds: Kinds, version: str, history: History | None = None) -> None:
        super().__init__("noetl", version)
        self.history = history
        self.kinds = kinds
        self.lookup = Lookup(kinds)
        self.known: dict[str, Analysis] = {}  # by URI: of the current text, or of an older one
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._checks: dict[str, asyncio.Task[Analysis]] = {}  # that run

    def names(self, uri: str) -> Analysis | None:
        """For the names of the playbook: an analysis of the text as it is, or as it was before the last keystrokes."""
        return self.known[uri].whole if uri in self.known else None

    def text(self, uri: str) -> str:
        return self.workspace.get_text_document(uri).source

    def schedule(self, uri: str) -> None:
        """Check the text when there were no changes for a moment."""
        if uri in self._timers:
            self._timers.pop(uri).cancel()
        loop = asyncio.get_running_loop()
        self._timers[uri] = loop.call_later(DEBOUNCE_S, lambda: self._begin(uri))

    def _begin(self, uri: str) -> None:
        self._timers.pop(uri, None)
        if uri in self.workspace.text_documents and uri not in self._checks:
            self._checks[uri] = asyncio.create_task(self._check(uri))

    async def _check(self, uri: str) -> Analysis:
        text = self.text(uri)
        try:
            known = await asyncio.to_thread(Analysis, text, self.kinds, uri, self.known.get(uri))
        finally:
            del self._checks[uri]
        if uri in self.workspace.text_documents:
            self.known[uri] = known
            if self.text(uri) == text:
                self.publish(uri, known)
            elif uri not in self._timers:
                self._begin(uri)
        return known

    async def current(self, uri: str) -> Analysis:
        """The analysis of the text as it is now."""
        while uri not in self.known or self.known[uri].text != self.text(uri):
            self._begin(uri)
            await self._checks[uri]
        return self.known[uri]

    def problems(self, uri: str, known: Analysis) -> Iterable[Problem]:
        """None for a file that is neither a playbook nor a test file."""
        if is_suite(uri):
            return suite_problems(uri, known.text)
        return known.checked.problems if is_playbook(known) else ()

    async def last(self, known: Analysis) -> NewestExecution | None:
        playbook = known.checked.playbook
        return await self.history.newest(playbook.path) if self.history is not None and playbook is not None else None

    def publish(self, uri: str, known: Analysis) -> None:
        positions = Positions(known.text)
        found = [diagnostic(problem, known.text, positions, uri) for problem in self.problems(uri, known)]
        version = self.workspace.get_text_document(uri).version
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, version))

    def forget(self, uri: str) -> None:
        self.known.pop(uri, None)
        if uri in self._timers:
            self._timers.pop(uri).cancel()
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


def diagnostic(problem: Problem, text: str, positions: Positions, uri: str) -> lsp.Diagnostic:
    start, end = span_of(text, positions.of_mark(problem.line, problem.column))
    related = [
        lsp.DiagnosticRelatedInformation(
            lsp.Location(uri, positions.range(*span_of(text, positions.of_mark(each.at.line, each.at.column)))),
            each.note,
        )
        for each in problem.related
    ]
    return lsp.Diagnostic(
        range=positions.range(start, end),
        message=problem.message,
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        source="noetl",
        related_information=related or None,
        data={"fix": problem.fix} if problem.fix else None,
    )


def serve(kinds: Kinds, version: str, history: History | None = None) -> None:
    """Serve standard input and output until the editor ends the session."""
    editor = make_server(kinds, version, history)
    # A check makes many objects and few cycles: with the default threshold, a third of its time is garbage collection.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 5, 5)
    editor.start_io()


def make_server(kinds: Kinds, version: str, history: History | None = None) -> Editor:
    """A server whose features are registered."""
    editor = Editor(kinds, version, history)
    for register in (_texts, _writing, _reading, _naming, _layout, _actions):
        register(editor)
    return editor


def _texts(editor: Editor) -> None:
    @editor.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        editor.schedule(params.text_document.uri)

    @editor.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        editor.schedule(params.text_document.uri)

    @editor.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        editor.forget(params.text_document.uri)


def _writing(editor: Editor) -> None:
    options = lsp.CompletionOptions(trigger_characters=[".", "|", "{", " "])

    @editor.feature(lsp.TEXT_DOCUMENT_COMPLETION, options)
    async def completion(params: lsp.CompletionParams) -> lsp.CompletionList:
        uri = params.text_document.uri
        text = editor.text(uri)
        positions = Positions(text)
        found = complete(text, positions.offset(params.position), editor.names(uri), editor.lookup)
        span = positions.range(found.start, found.end)
        return lsp.CompletionList(False, [_item(option, span) for option in found.options])

    actions = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])

    @editor.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, actions)
    async def code_actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        known = await editor.current(uri)
        return list(_fixes(known, uri, params.range))


def _item(option: Option, span: lsp.Range) -> lsp.CompletionItem:
    return lsp.CompletionItem(
        label=option.label,
        kind=_OPTIONS[option.kind],
        detail=option.detail or None,
        documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, option.doc) if option.doc else None,
        sort_text=f"{option.detail != 'required':d}{option.label}",
        text_edit=lsp.TextEdit(span, option.insert or option.label),
    )


def _fixes(known: Analysis, uri: str, wanted: lsp.Range) -> Iterator[lsp.CodeAction]:
    positions = Positions(known.text)
    for problem in known.checked.problems:
        if not wanted.start.line <= problem.line - 1 <= wanted.end.line:
            continue
        edit = fix_edit(known.text, problem, positions.of_mark(problem.line, problem.column))
        if edit is not None:
            change = lsp.TextEdit(positions.range(edit.start, edit.end), edit.insert)
            title = f"Write `{edit.insert.strip()}`"
            yield lsp.CodeAction(
                title=title,
                kind=lsp.CodeActionKind.QuickFix,
                diagnostics=[diagnostic(problem, known.text, positions, uri)],
                is_preferred=True,
                edit=lsp.WorkspaceEdit(changes={uri: [change]}),
            )


def _reading(editor: Editor) -> None:
    @editor.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        uri = params.text_document.uri
        text, known = editor.text(uri), editor.names(uri)
        offset = Positions(text).offset(params.position)
        found = [hover(text, offset, known, editor.lookup), await _last_value(editor, text, offset, known)]
        words = "\n\n".join(each for each in found if each)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, words)) if words else None

    @editor.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        known = await editor.current(params.text_document.uri)
        positions = Positions(known.text)
        return [_symbol(each, known.text, positions) for each in outline(known)]

    @editor.feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    async def folded(params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        return [lsp.FoldingRange(first, last) for first, last in folds(editor.text(params.text_document.uri))]

    legend = lsp.SemanticTokensLegend(list(TOKEN_KINDS), [])

    @editor.feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)
    async def tokens(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        known = await editor.current(params.text_document.uri)
        positions, data, line, column = Positions(known.text), list[int](), 0, 0
        for each in await asyncio.to_thread(highlights, known):
            at = positions.position(each.start)
            column = column if at.line == line else 0
            length = positions.position(each.end).character - at.character
            data += [at.line - line, at.character - column, length, TOKEN_KINDS.index(each.kind), 0]
            line, column = at.line, at.character
        return lsp.SemanticTokens(data)


async def _last_value(editor: Editor, text: str, offset: int, known: Analysis | None) -> str | None:
    """What the newest execution of the playbook had here."""
    last = await editor.last(known) if known is not None else None
    if last is None or known is None or editor.history is None:
        return None
    step = step_at(text, offset, known, last)
    if step is not None:
        return step_text(step, last, await editor.history.output(last.id, step))
    return value_at(text, offset, last)


def _symbol(symbol: OutlineSymbol, text: str, positions: Positions) -> lsp.DocumentSymbol:
    end = symbol.start + len(text[symbol.start : symbol.end].rstrip("\n -#"))
    name = span_of(text, symbol.at)
    return lsp.DocumentSymbol(
        name=symbol.name or "–",
        kind=_SYMBOLS[symbol.kind],
        range=positions.range(symbol.start, max(end, name[1])),
        selection_range=positions.range(*name),
        detail=symbol.detail or None,
        children=[_symbol(each, text, positions) for each in symbol.children],
    )


def _naming(editor: Editor) -> None:
    @editor.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: lsp.DefinitionParams) -> list[lsp.Location]:
        uri = params.text_document.uri
        found = await _found(editor, uri, params.position)
        if found:
            return _locations(editor, uri, [each for each in found if each.defines])
        known = await editor.current(uri)
        file = await asyncio.to_thread(child_file, uri, known, Positions(known.text).offset(params.position))
        start = lsp.Position(0, 0)
        return [lsp.Location(file, lsp.Range(start, start))] if file is not None else []

    @editor.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        found = await _found(editor, params.text_document.uri, params.position)
        wanted = [each for each in found if params.context.include_declaration or not each.defines]
        return _locations(editor, params.text_document.uri, wanted)

    @editor.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    async def prepare(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        known = await editor.current(params.text_document.uri)
        positions = Positions(known.text)
        here = known.at(positions.offset(params.position))
        return positions.range(here.start, here.end) if here is not None and here.name.kind in RENAMED else None

    @editor.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        uri = params.text_document.uri
        known = await editor.current(uri)
        positions = Positions(known.text)
        here = known.at(positions.offset(params.position))
        if here is None or here.name.kind not in RENAMED:
            raise JsonRpcInvalidParams("only steps and tasks can be renamed")
        refusal = known.refusal(here.name, params.new_name)
        if refusal is not None:
            raise JsonRpcInvalidParams(refusal)
        found = known.of(here.name)
        edits = [lsp.TextEdit(positions.range(each.start, each.end), params.new_name) for each in found]
        return lsp.WorkspaceEdit(changes={uri: edits})


async def _found(editor: Editor, uri: str, position: lsp.Position) -> list[Occurrence]:
    known = await editor.current(uri)
    here = known.at(Positions(known.text).offset(position))
    return known.of(here.name) if here is not None else []


def _locations(editor: Editor, uri: str, found: list[Occurrence]) -> list[lsp.Location]:
    positions = Positions(editor.text(uri))
    return [lsp.Location(uri, positions.range(each.start, each.end)) for each in found]


def _layout(editor: Editor) -> None:
    @editor.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    async def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        known = await editor.current(params.text_document.uri)
        try:
            made = format_checked(known.text, known.checked).text
        except PlaybookError:
            return []  # the diagnostics say why
        return list(_difference(known.text, made))


def _actions(editor: Editor) -> None:
    @editor.feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions(resolve_provider=False))
    async def code_lenses(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        uri = params.text_document.uri
        if is_suite(uri):
            text = editor.text(uri)
            return _lenses(text, suite_lenses(text, uri))
        known = await editor.current(uri)
        test = await asyncio.to_thread(beside, uri)
        return _lenses(known.text, lenses(known, uri, test, await editor.last(known)))


def _lenses(text: str, found: Iterable[Lens]) -> list[lsp.CodeLens]:
    positions = Positions(text)
    return [
        lsp.CodeLens(
            range=positions.range(each.start, each.start),
            command=lsp.Command(title=each.title, command=each.command, arguments=list(each.arguments)),
        )
        for each in found
    ]


def _difference(old: str, new: str) -> Iterator[lsp.TextEdit]:
    """One edit of the lines between the first and the last difference."""
    before, after = old.split("\n"), new.split("\n")
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    if old != new:
        start = sum(len(line) + 1 for line in before[:first])
        end = start + len("\n".join(before[first : len(before) - last]))
        yield lsp.TextEdit(Positions(old).range(start, end), "\n".join(after[first : len(after) - last]))
