/** What the editor offers to write: keys and values of the language, names of the playbook itself. */

import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  snippetCompletion,
} from "@codemirror/autocomplete";
import { stringify } from "yaml";
import type { Choice, Language } from "./language";
import { type Place, type Trail, placeAt, valueAt } from "./place";

// What templates may read; each is explained in the reference of scopes.
const SCOPES: Record<string, string> = {
  workload: "the inputs of the execution",
  ctx: "what steps have set, shared by all of them",
  input: "what was bound for this step or task",
  iter: "the item of the loop, and what the iteration has set",
  step: "what this step has set",
  output: "what the task has given back: status, data, error, ref",
  event: "what has just happened to the step",
  keychain: "credentials; never written to the log",
  execution_id: "the id of the execution",
};

export function completions(language: () => Language | null) {
  return (context: CompletionContext): CompletionResult | null => {
    const text = context.state.doc.toString();
    const inTemplate = templateNames(context, text);
    if (inTemplate !== null) return inTemplate;
    const known = language();
    const place = placeAt(text, context.pos);
    if (known === null || place === null) return null;
    if (place.typed === "" && !context.explicit) return null;
    const options = place.isKey ? ofKeys(known, place) : ofValues(known, place);
    return options.length === 0 ? null : { from: place.from, options, validFor: /^[\w./-]*$/ };
  };
}

function ofKeys(language: Language, place: Place): Completion[] {
  const written = valueAt(place.root, place.trail);
  const taken = new Set(typeof written === "object" && written !== null ? Object.keys(written) : []);
  const keys = language
    .keys(place.trail, place.root)
    .filter((each) => !taken.has(each.name))
    .map((each) => keyOption(each));
  const isFresh = taken.size <= 1; // nothing but the mark
  return isFresh ? [...keys, ...snippets(language, place.trail, place.root)] : keys;
}

function keyOption(choice: Choice): Completion {
  return {
    label: choice.name,
    type: "property",
    info: choice.doc,
    detail: choice.required ? "needed" : "",
    apply: choice.nests === null ? `${choice.name}: ` : `${choice.name}:`,
    boost: choice.required ? 2 : 0,
  };
}

function snippets(language: Language, trail: Trail, root: unknown): Completion[] {
  return language.snippets(trail, root).map(({ label, body }) =>
    snippetCompletion(stringify(body, { indentSeq: false }).trimEnd(), { label, type: "text", detail: "template" }),
  );
}

function ofValues(language: Language, place: Place): Completion[] {
  const values: Completion[] = language
    .values(place.trail, place.root)
    .map((each) => ({ label: each.name, info: each.doc, type: "enum" }));
  return [...values, ...targets(place)];
}

/** Steps that an arc may lead to, and tasks that a rule may jump to. */
function targets({ trail, root }: Place): Completion[] {
  const leadsToStep = trail.includes("arcs") && (trail.at(-1) === "step" || trail.at(-2) === "to");
  if (!leadsToStep) return [];
  return [...stepNames(root), "end"].map((label) => ({ label, type: "variable", detail: label === "end" ? "" : "step" }));
}

export function stepNames(root: unknown): string[] {
  const workflow = valueAt(root, ["workflow"]);
  if (!Array.isArray(workflow)) return [];
  return workflow.map((each: unknown) => valueAt(each, ["step"])).filter((each) => typeof each === "string");
}

function templateNames(context: CompletionContext, text: string): CompletionResult | null {
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

/** Names with a scope before them that occur in the text, and the keys of the workload. */
function namesIn(text: string): string[] {
  const used = Array.from(text.matchAll(/\b(?:ctx|iter|step|input|keychain)\.[A-Za-z_]\w*/g), (each) => each[0]);
  const block = /^workload:[ \t]*\n((?:[ \t]+.*\n|\n)*)/m.exec(text)?.[1] ?? "";
  const keys = Array.from(block.matchAll(/^ {2}([A-Za-z_][\w-]*):/gm), (each) => `workload.${each[1] ?? ""}`);
  const flow = /^workload:[ \t]*\{(.*)\}/m.exec(text)?.[1] ?? "";
  const inline = Array.from(flow.matchAll(/(?:^|,)\s*([A-Za-z_][\w-]*):/g), (each) => `workload.${each[1] ?? ""}`);
  return [...new Set([...keys, ...inline, ...used])];
}
