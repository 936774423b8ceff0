/** Problems of a playbook from the server, and their positions in the text. */

import type { PlaybookProblem } from "../api/types";

export type Problem = PlaybookProblem;

export interface Span {
  from: number;
  to: number;
}

export interface Edit extends Span {
  insert: string;
}

/** The offset of a line and column; the end of the text when the text is shorter. */
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

/** The range to underline: the word or the quoted text at the position. */
export function spanOf(text: string, problem: Problem): Span {
  const from = offsetOf(text, problem.line, problem.column);
  const token = TOKEN.exec(text.slice(from, from + 400))?.[0] ?? "";
  if (token.length > 0) return { from, to: from + token.length };
  const before = Math.max(text.lastIndexOf("\n", from - 1) + 1, from - 1);
  return { from: before, to: from };
}

// Problems of the net: whether every token can reach an end (level L5).
const SOUNDNESS_CODES = new Set([
  "unreachable-step", "unreachable-task", "dead-arc", "dead-rule", "endless-cycle", "endless-jump", "undeclared-join",
  "fall-through", "not-provable",
]);

export type Soundness = "sound" | "doubtful" | "unsound" | "unknown";

/** `unknown` while the text has other errors: its net is incomplete. */
export function soundness(problems: readonly Problem[]): Soundness {
  const relevant = problems.filter((each) => SOUNDNESS_CODES.has(each.code));
  if (relevant.some((each) => each.severity === "error")) return "unsound";
  if (problems.some((each) => each.severity === "error")) return "unknown";
  return relevant.length > 0 ? "doubtful" : "sound";
}
