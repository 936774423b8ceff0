/** A problem's fix as a change of the text, where it says exactly what to write. */

import { type Edit, type Problem, offsetOf, spanOf } from "./problems";

const INSIDE = new Set(["retry-without-attempts", "retry-without-delay", "missing-do", "missing-key"]);
const WHOLE = new Set(["ref-expected", "yaml-key"]);

/** null: the fix is advice, and a person has to follow it. */
export function editOf(text: string, problem: Problem): Edit | null {
  const { code, fix } = problem;
  if (fix === undefined || fix.includes("…")) return null;
  const from = offsetOf(text, problem.line, problem.column);
  if (INSIDE.has(code)) return inside(text, from, fix);
  if (code === "undeclared-join") return beside(text, from, fix, "after");
  if (code === "no-start" && fix.includes(":")) return beside(text, from, fix, "before");
  if (code === "never-equal") return compared(text, from, problem.message, fix);
  if (WHOLE.has(code)) return { ...scalarAt(text, problem), insert: fix };
  return renamed(text, from, problem);
}

/** The word that the message names is replaced by the one that was probably meant. */
function renamed(text: string, from: number, { message, fix = "" }: Problem): Edit | null {
  const meant = /did you mean "([^"]+)"/.exec(fix)?.[1] ?? fix;
  const isOneValue = /^[\w.-]+$/.test(meant) || /^"\{\{.*\}\}"$/.test(meant);
  if (!isOneValue) return null;
  const quoted = Array.from(message.matchAll(/"([^"]+)"/g), (each) => each[1] ?? "");
  const word = quoted.filter((each) => text.startsWith(each, from)).sort((a, b) => b.length - a.length)[0];
  return word === undefined ? null : { from, to: from + word.length, insert: meant };
}

/** The quoted value that is compared, behind the place of the problem and on its line. */
function compared(text: string, from: number, message: string, fix: string): Edit | null {
  const wrong = /is never "([^"]+)"/.exec(message)?.[1];
  if (wrong === undefined) return null;
  const end = text.indexOf("\n", from);
  const line = text.slice(from, end < 0 ? text.length : end);
  const at = [`'${wrong}'`, `"${wrong}"`].map((each) => line.indexOf(each)).find((place) => place >= 0);
  return at === undefined ? null : { from: from + at, to: from + at + wrong.length + 2, insert: fix };
}

function scalarAt(text: string, problem: Problem): { from: number; to: number } {
  const { from, to } = spanOf(text, problem);
  return { from, to: problem.code === "yaml-key" && text[to] === ":" ? to + 1 : to };
}

/** One more key in the mapping that begins there, or below the key that stands there. */
function inside(text: string, from: number, fix: string): Edit | null {
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

/** A line of its own beside the one with the problem, as deep as that line's first key. */
function beside(text: string, from: number, fix: string, where: "before" | "after"): Edit {
  const start = text.lastIndexOf("\n", from - 1) + 1;
  const depth = /^(?: |- )*/.exec(text.slice(start))?.[0].length ?? 0;
  if (where === "before") return { from: start, to: start, insert: `${fix}\n` };
  const end = text.indexOf("\n", from);
  const at = end < 0 ? text.length : end;
  return { from: at, to: at, insert: `\n${" ".repeat(depth)}${fix}` };
}
