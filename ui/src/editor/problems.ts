/** Problems of a playbook as the server tells them, and where they stand in the text. */

import type { components } from "../api/schema";

export type Problem = components["schemas"]["ProblemDocument"];

export interface Span {
  from: number;
  to: number;
}

export interface Edit extends Span {
  insert: string;
}

/** The offset of a line and column in the text; the end of the text when it is shorter. */
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let left = line - 1; left > 0; left -= 1) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  const end = text.indexOf("\n", start);
  return Math.min(start + column - 1, end < 0 ? text.length : end);
}

const TOKEN = /^(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'|[\w.-]+|\S)/;

/** What is underlined: the word or the quoted text that begins there. */
export function spanOf(text: string, problem: Problem): Span {
  const from = offsetOf(text, problem.line, problem.column);
  const token = TOKEN.exec(text.slice(from, from + 400))?.[0] ?? "";
  if (token.length > 0) return { from, to: from + token.length };
  const before = Math.max(text.lastIndexOf("\n", from - 1) + 1, from - 1);
  return { from: before, to: from };
}

export function worst(problems: readonly Problem[]): Problem["severity"] | null {
  for (const severity of ["error", "warning", "info"] as const) {
    if (problems.some((each) => each.severity === severity)) return severity;
  }
  return null;
}

// What the net itself can be reproached with: whether every token can come to an end (level L5).
const OF_THE_NET = new Set([
  "unreachable-step", "unreachable-task", "dead-arc", "dead-rule", "endless-cycle", "endless-jump", "undeclared-join",
  "fall-through", "not-provable",
]);

export type Soundness = "sound" | "doubtful" | "unsound" | "unknown";

/** `unknown` while something else is wrong: the net of a text that can not be read says nothing. */
export function soundness(problems: readonly Problem[]): Soundness {
  const ofNet = problems.filter((each) => OF_THE_NET.has(each.code));
  if (ofNet.some((each) => each.severity === "error")) return "unsound";
  if (problems.some((each) => each.severity === "error")) return "unknown";
  return ofNet.length > 0 ? "doubtful" : "sound";
}
