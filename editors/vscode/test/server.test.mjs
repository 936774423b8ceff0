// The language server as the extension starts it: the same program and arguments, over standard input and output.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(import.meta.url);
const { createMessageConnection, StreamMessageReader, StreamMessageWriter } = require("vscode-jsonrpc/node");

const TEXT = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: t, path: t }
workflow:
  - step: start
    tool: { kind: noop }
    next: { arcs: [{ step: nowhere }] }
`;

test("the server reports problems and offers actions", { timeout: 60_000 }, async () => {
  const program = process.env.NOETL ?? "noetl";
  const server = spawn(program, ["lsp", "--db", "/nonexistent/noetl.db"], { stdio: ["pipe", "pipe", "inherit"] });
  const connection = createMessageConnection(new StreamMessageReader(server.stdout), new StreamMessageWriter(server.stdin));
  connection.listen();
  const published = new Promise((resolve) => {
    connection.onNotification("textDocument/publishDiagnostics", resolve);
  });
  const { capabilities } = await connection.sendRequest("initialize", { processId: null, rootUri: null, capabilities: {} });
  for (const name of ["hoverProvider", "completionProvider", "codeLensProvider", "renameProvider", "referencesProvider"]) {
    assert.ok(capabilities[name], name);
  }
  await connection.sendNotification("initialized", {});
  const uri = "file:///t.yaml";
  await connection.sendNotification("textDocument/didOpen", {
    textDocument: { uri, languageId: "yaml", version: 1, text: TEXT },
  });
  const { diagnostics } = await published;
  assert.ok(diagnostics.some((each) => each.code === "unknown-step"));
  const lenses = await connection.sendRequest("textDocument/codeLens", { textDocument: { uri } });
  assert.deepEqual(lenses, []); // it has errors and no tests
  await connection.sendRequest("shutdown");
  await connection.sendNotification("exit");
  await new Promise((resolve) => server.on("exit", resolve));
});
