/** Completions: keys and values of the language, and names in the playbook. */

import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  snippetCompletion,
} from "@codemirror/autocomplete";
import { stringify } from "yaml";
import type { Choice, Language } from "./language";
import { type CursorPosition, type KeyPath, positionAt, valueAt } from "./position";

// The scopes that templates can read; docs/reference/scopes.md explains each.
const SCOPES: Record<string, string> = {
  workload: "the inputs of the execution",
  ctx: "values that steps have set, shared by all steps",
  input: "the input of this step or task",
  iter: "the loop item, and values that the iteration has set",
  step: "values that this step has set",
  output: "the result of the task: status, data, error, ref",
  event: "the latest event of the step",
  keychain: "credentials; never written to the log",
  execution_id: "the id of the execution",
};

export function completions(language: () => Language | null) {
  return (context: CompletionContext): CompletionResult | null => {
    const text = context.state.doc.toString();
    const inTemplate = templateCompletions(context, text);
    if (inTemplate !== null) return inTemplate;
    const known = language();
    const position = positionAt(text, context.pos);
    if (known === null || position === null) return null;
    if (position.typed === "" && !context.explicit) return null;
    const options = position.isKey ? keyCompletions(known, position) : valueCompletions(known, position);
    return options.length === 0 ? null : { from: position.from, options, validFor: /^[\w./-]*$/ };
  };
}

function keyCompletions(language: Language, position: CursorPosition): Completion[] {
  const written = valueAt(position.root, position.keyPath);
  const taken = new Set(typeof written === "object" && written !== null ? Object.keys(written) : []);
  const keys = language
    .keys(position.keyPath, position.root)
    .filter((each) => !taken.has(each.name))
    .map((each) => keyOption(each));
  const isFresh = taken.size <= 1; // only the mark at the cursor
  return isFresh ? [...keys, ...snippets(language, position.keyPath, position.root)] : keys;
}

function keyOption(choice: Choice): Completion {
  return {
    label: choice.name,
    type: "property",
    info: choice.doc,
    detail: choice.required ? "required" : "",
    apply: choice.nesting === null ? `${choice.name}: ` : `${choice.name}:`,
    boost: choice.required ? 2 : 0,
  };
}

function snippets(language: Language, keyPath: KeyPath, root: unknown): Completion[] {
  return language.snippets(keyPath, root).map(({ label, body }) =>
    snippetCompletion(stringify(body, { indentSeq: false }).trimEnd(), { label, type: "text", detail: "template" }),
  );
}

function valueCompletions(language: Language, position: CursorPosition): Completion[] {
  const values: Completion[] = language
    .values(position.keyPath, position.root)
    .map((each) => ({ label: each.name, info: each.doc, type: "enum" }));
  return [...values, ...stepCompletions(position)];
}

/** Steps that an arc can lead to. */
function stepCompletions({ keyPath, root }: CursorPosition): Completion[] {
  const leadsToStep = keyPath.includes("arcs") && (keyPath.at(-1) === "step" || keyPath.at(-2) === "to");
  if (!leadsToStep) return [];
  return [...stepNames(root), "end"].map((label) => ({ label, type: "variable", detail: label === "end" ? "" : "step" }));
}

export function stepNames(root: unknown): string[] {
  const workflow = valueAt(root, ["workflow"]);
  if (!Array.isArray(workflow)) return [];
  return workflow.map((each: unknown) => valueAt(each, ["step"])).filter((each) => typeof each === "string");
}

function templateCompletions(context: CompletionContext, text: string): CompletionResult | null {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const open = before.lastIndexOf("{{");
  if (open < 0 || before.indexOf("}}", open) >= 0) return null;
  const typed = /[\w.]*$/.exec(before.slice(open + 2))?.[0] ?? "";
  if (typed === "" && !context.explicit) return null;
  const options: Completion[] = [
    ...Object.entries(SCOPES).map(([label, info]) => ({ label, info, type: "namespace" })),
    ...namesIn(text).map((label) => ({ label, type: "variable" })),
  ];
  return { from: context.pos - typed.length, options, validFor: /^[\w.]*$/ };
}

/** Scoped names that occur in the text, and the keys of the workload. */
function namesIn(text: string): string[] {
  const used = Array.from(text.matchAll(/\b(?:ctx|iter|step|input|keychain)\.[A-Za-z_]\w*/g), (each) => each[0]);
  const block = /^workload:[ \t]*\n((?:[ \t]+.*\n|\n)*)/m.exec(text)?.[1] ?? "";
  const keys = Array.from(block.matchAll(/^ {2}([A-Za-z_][\w-]*):/gm), (each) => `workload.${each[1] ?? ""}`);
  const flow = /^workload:[ \t]*\{(.*)\}/m.exec(text)?.[1] ?? "";
  const inline = Array.from(flow.matchAll(/(?:^|,)\s*([A-Za-z_][\w-]*):/g), (each) => `workload.${each[1] ?? ""}`);
  return [...new Set([...keys, ...inline, ...used])];
}
