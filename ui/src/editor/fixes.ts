/** Turns the fix of a problem into an edit, where the fix says exactly what to write. */

import { type Edit, type Problem, offsetOf, spanOf } from "./problems";

const INSERTED_KEYS = new Set(["retry-without-attempts", "retry-without-delay", "missing-do", "missing-key"]);
const REPLACED_SCALARS = new Set(["ref-expected", "yaml-key"]);

/** Returns null when the fix is advice that a person has to follow. */
export function editOf(text: string, problem: Problem): Edit | null {
  const { code, fix } = problem;
  if (fix === undefined || fix.includes("…")) return null;
  const from = offsetOf(text, problem.line, problem.column);
  if (INSERTED_KEYS.has(code)) return insertKey(text, from, fix);
  if (code === "undeclared-join") return insertLine(text, from, fix, "after");
  if (code === "no-start" && fix.includes(":")) return insertLine(text, from, fix, "before");
  if (code === "never-equal") return replaceComparedValue(text, from, problem.message, fix);
  if (REPLACED_SCALARS.has(code)) return { ...scalarAt(text, problem), insert: fix };
  return replaceName(text, from, problem);
}

/** Replaces the name in the message by the suggested one. */
function replaceName(text: string, from: number, { message, fix = "" }: Problem): Edit | null {
  const replacement = /did you mean "([^"]+)"/.exec(fix)?.[1] ?? fix;
  const isOneValue = /^[\w.-]+$/.test(replacement) || /^"\{\{.*\}\}"$/.test(replacement);
  if (!isOneValue) return null;
  const quoted = Array.from(message.matchAll(/"([^"]+)"/g), (each) => each[1] ?? "");
  const word = quoted.filter((each) => text.startsWith(each, from)).sort((a, b) => b.length - a.length)[0];
  return word === undefined ? null : { from, to: from + word.length, insert: replacement };
}

/** Replaces the quoted value of a comparison, on the line of the problem and after its position. */
function replaceComparedValue(text: string, from: number, message: string, fix: string): Edit | null {
  const wrong = /is never "([^"]+)"/.exec(message)?.[1];
  if (wrong === undefined) return null;
  const end = text.indexOf("\n", from);
  const line = text.slice(from, end < 0 ? text.length : end);
  const at = [`'${wrong}'`, `"${wrong}"`].map((each) => line.indexOf(each)).find((index) => index >= 0);
  return at === undefined ? null : { from: from + at, to: from + at + wrong.length + 2, insert: fix };
}

function scalarAt(text: string, problem: Problem): { from: number; to: number } {
  const { from, to } = spanOf(text, problem);
  return { from, to: problem.code === "yaml-key" && text[to] === ":" ? to + 1 : to };
}

/** Adds a key to the mapping at this position, or below the key at this position. */
function insertKey(text: string, from: number, fix: string): Edit | null {
  const rest = text.slice(from);
  const brace = /^(?:[\w.-]+:\s*)?\{ ?/.exec(rest)?.[0];
  if (brace !== undefined) {
    const at = from + brace.length;
    return { from: at, to: at, insert: text[at] === "}" ? `${fix} ` : `${fix}, ` };
  }
  const start = text.lastIndexOf("\n", from - 1) + 1;
  const indent = " ".repeat(from - start);
  if (/^[\w.-]+:[ \t]*\n/.test(rest)) {
    const below = text.indexOf("\n", from) + 1;
    const deeper = /^ +/.exec(text.slice(below))?.[0] ?? `${indent}  `;
    return { from: below, to: below, insert: `${deeper.length > indent.length ? deeper : `${indent}  `}${fix}\n` };
  }
  return { from, to: from, insert: `${fix}\n${indent}` };
}

/** Adds a line before or after that of the problem, with the indentation of its first key. */
function insertLine(text: string, from: number, fix: string, where: "before" | "after"): Edit {
  const start = text.lastIndexOf("\n", from - 1) + 1;
  const depth = /^(?: |- )*/.exec(text.slice(start))?.[0].length ?? 0;
  if (where === "before") return { from: start, to: start, insert: `${fix}\n` };
  const end = text.indexOf("\n", from);
  const at = end < 0 ? text.length : end;
  return { from: at, to: at, insert: `\n${" ".repeat(depth)}${fix}` };
}
