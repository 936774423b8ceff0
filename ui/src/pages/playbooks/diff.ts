/** Parses a unified diff into lines. */

export type LineKind = "file" | "hunk" | "added" | "removed" | "same" | "note";

export interface DiffLine {
  kind: LineKind;
  text: string;
  before: number | null; // line number in the older text
  after: number | null; // line number in the newer text
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

export function parseDiff(diff: string): DiffLine[] {
  let before = 0;
  let after = 0;
  let isInHunk = false; // a removed line can start like a file name
  return diff.split("\n").slice(0, diff.endsWith("\n") ? -1 : undefined).map((text): DiffLine => {
    const hunk = HUNK.exec(text);
    if (hunk !== null) {
      [before, after, isInHunk] = [Number(hunk[1]), Number(hunk[2]), true];
      return { kind: "hunk", text, before: null, after: null };
    }
    if (!isInHunk) return { kind: "file", text, before: null, after: null };
    if (text.startsWith("+")) return { kind: "added", text: text.slice(1), before: null, after: after++ };
    if (text.startsWith("-")) return { kind: "removed", text: text.slice(1), before: before++, after: null };
    if (text.startsWith("\\")) return { kind: "note", text: text.slice(2), before: null, after: null };
    return { kind: "same", text: text.slice(1), before: before++, after: after++ };
  });
}
