"""`noetl lsp` as an editor uses it: the answers to keystrokes and completions in a playbook of 1,000 steps.

The time includes the client and its pipes; the processor time is that of the server. Run it with
`python -m benchmarks editor`.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from benchmarks.check import FULL_STEP, playbook
from benchmarks.sizes import scaled

URI: Final = "file:///bench.yaml"
KEYSTROKES: Final = scaled(20, 2)
STEPS: Final = scaled(1_000, 30)
TICKS: Final = os.sysconf("SC_CLK_TCK")


class _Editor:
    """A client with one open text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.version = 0
        self.client = LanguageClient("benchmark", "1")
        self.published: asyncio.Queue[int | None] = asyncio.Queue()  # versions

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]  # of pygls
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params.version)

    async def start(self) -> None:
        await self.client.start_io(sys.executable, "-m", "noetl", "lsp")
        await self.client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
        self.client.initialized(lsp.InitializedParams())
        item = lsp.TextDocumentItem(URI, "yaml", self.version, self.text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        await self._diagnostics()

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()  # type: ignore[no-untyped-call]  # of pygls

    async def type(self, behind: str, text: str) -> None:
        """Type a text, and wait for the diagnostics of the new version."""
        at = self._behind(behind)
        offset = self.text.index(behind) + len(behind)
        self.text = self.text[:offset] + text + self.text[offset:]
        self.version += 1
        document = lsp.VersionedTextDocumentIdentifier(version=self.version, uri=URI)
        change = lsp.TextDocumentContentChangePartial(range=lsp.Range(at, at), text=text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))
        await self._diagnostics()

    async def complete(self, behind: str) -> int:
        """The number of completions."""
        document = lsp.TextDocumentIdentifier(URI)
        params = lsp.CompletionParams(document, self._behind(behind))
        found = await self.client.text_document_completion_async(params)
        assert isinstance(found, lsp.CompletionList)
        return len(found.items)

    def _behind(self, words: str) -> lsp.Position:
        before = self.text[: self.text.index(words) + len(words)]
        return lsp.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)

    async def _diagnostics(self) -> None:
        while await self.published.get() != self.version:
            pass

    @property
    def process(self) -> Path:
        server = self.client._server  # the client has no other way to its process
        assert server is not None
        return Path(f"/proc/{server.pid}")

    @property
    def processor_s(self) -> float:
        fields = (self.process / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory_mib(self) -> float:
        """The largest resident set so far."""
        lines = (self.process / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


async def _measured() -> list[tuple[str, float, str]]:
    rows: list[tuple[str, float, str]] = []
    middle = STEPS // 2
    head = "keychain: [{name: token, kind: env, var: TOKEN}]\nexecutor: {version: v1}\n"
    text = head + playbook(STEPS, FULL_STEP)
    new = "- step: added\n  tool: {kind: noop}\n"
    editor = _Editor(text.replace(f"- step: step_{middle}\n", f"{new}- step: step_{middle}\n"))
    await editor.start()
    try:
        for place, behind in (
            ("a template", f"output.data.total | default({middle}"),
            ("the name of a step", f"- step: step_{middle}"),
            ("a new step", "- step: added"),
            ("the metadata", "{name: big"),
            ("the workload", "workload: {api_url: http://127.0.0.1"),
            ("a key of the workload", "workload: {api_url"),
            ("the keychain", "keychain: [{name: token"),
            ("the executor", "executor: {version: v"),
        ):
            await editor.type(behind, "0")
            times, before = [], editor.processor_s
            for _ in range(KEYSTROKES):
                began = perf_counter()
                await editor.type(behind, "1")
                times.append(perf_counter() - began)
            used = (editor.processor_s - before) / KEYSTROKES
            rows += [
                (f"editor: diagnostics after a keystroke in {place}", statistics.median(times) * 1_000, "ms"),
                ("… its processor time", used * 1_000, "ms"),
            ]
        await editor.type(f"- step: step_{middle + 2}", "\n  sp")
        for place, behind in (
            ("a step", f"    - {{step: step_{middle + 1}"[:-1]),
            ("a path in ctx", f"{{{{ ctx.page_{middle}"[:-1]),
            ("a key", f"- step: step_{middle + 2}\n  sp"),
        ):
            assert await editor.complete(behind) > 0, place
            times, before = [], editor.processor_s
            for _ in range(KEYSTROKES):
                began = perf_counter()
                await editor.complete(behind)
                times.append(perf_counter() - began)
            used = (editor.processor_s - before) / KEYSTROKES
            rows += [
                (f"editor: completion of {place}", statistics.median(times) * 1_000, "ms"),
                ("… its processor time", used * 1_000, "ms"),
            ]
        rows.append(("editor: peak memory of noetl lsp", editor.memory_mib, "MiB"))
    finally:
        await editor.stop()
    return rows


def measure() -> list[tuple[str, float, str]]:
    return asyncio.run(_measured())
