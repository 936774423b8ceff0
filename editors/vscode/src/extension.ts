/** Starts `noetl lsp` for YAML files, and runs playbooks and tests in a terminal. */

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

import { type Action, commandLine, testFile } from "./commands";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const register = (name: string, work: (...given: string[]) => unknown) =>
    context.subscriptions.push(vscode.commands.registerCommand(name, work));
  register("noetl.run", (uri) => onFile("run", uri));
  register("noetl.debug", (uri) => onFile("debug", uri));
  register("noetl.check", (uri) => onFile("check", uri));
  register("noetl.test", (uri, name) => onFile("test", uri, name));
  register("noetl.show", (id) => inTerminal("show", id));
  register("noetl.restart", restart);
  context.subscriptions.push(
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("noetl")) void restart();
    }),
  );
  // A folder that is not trusted could name any program in its settings.
  if (vscode.workspace.isTrusted) await start();
  else context.subscriptions.push(vscode.workspace.onDidGrantWorkspaceTrust(start));
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

function setting<T>(name: string, fallback: T): T {
  return vscode.workspace.getConfiguration("noetl").get<T>(name, fallback);
}

async function start(): Promise<void> {
  const args = ["lsp", ...setting<string[]>("lspArguments", [])];
  const server: ServerOptions = { command: setting("command", "noetl"), args };
  const options: LanguageClientOptions = {
    documentSelector: [
      { scheme: "file", language: "yaml" },
      { scheme: "untitled", language: "yaml" },
    ],
  };
  client = new LanguageClient("noetl", "NoETL", server, options);
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const hint = `The language server did not start: ${String(error)}. Install it with: pip install 'noetl[lsp]'`;
    void vscode.window.showErrorMessage(hint);
  }
}

async function restart(): Promise<void> {
  await client?.stop();
  client = undefined;
  await start();
}

/** `uri` comes from an action above a line; without it, the file is that of the active editor. */
async function onFile(action: Action, uri?: string, name?: string): Promise<void> {
  const active = vscode.window.activeTextEditor?.document;
  const found = typeof uri === "string" ? vscode.Uri.parse(uri) : active?.uri;
  if (found === undefined || found.scheme !== "file") {
    void vscode.window.showWarningMessage("Save the playbook as a file first.");
    return;
  }
  await vscode.workspace.textDocuments.find((each) => each.uri.toString() === found.toString())?.save();
  const file = action === "test" ? testFile(found.fsPath) : found.fsPath;
  inTerminal(action, file, name);
}

function inTerminal(action: Action, target: string, name?: string): void {
  const terminal = vscode.window.terminals.find((each) => each.name === "NoETL") ?? vscode.window.createTerminal("NoETL");
  terminal.show(true);
  terminal.sendText(commandLine(setting("command", "noetl"), action, target, name, process.platform === "win32"));
}
