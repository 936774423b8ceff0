/** How large things are drawn: layout must know it before they are. */

import type { ArcDrawn, StepDrawn } from "../api/types";

export interface Size {
  width: number;
  height: number;
}

const MARK: Size = { width: 26, height: 26 };
const TITLE_CHAR = 8.8; // of the widest of the system fonts
const SMALL_CHAR = 6.6;
const LABEL_CHARS_MAX = 30;
const LINE_CHARS_MAX = 18;

export function sizeOf(step: StepDrawn): Size {
  if (step.role === "entry" || step.role === "end") return MARK;
  const badges = [step.join, step.gate, step.fork].filter(Boolean).length * 40;
  const title = step.name.length * TITLE_CHAR + 98 + badges;
  const kinds = step.kinds.join(" · ").length * SMALL_CHAR + 64;
  // A loop counts: "running 99,222/100,000"; a wait says what it waits for.
  const least = step.loop !== null || step.kinds.includes("wait") ? 240 : 168;
  return { width: Math.round(Math.min(280, Math.max(least, title, kinds))), height: step.loop === null ? 62 : 70 };
}

/** The words on an arc; null: it has none. */
export function labelOf(arc: ArcDrawn): string | null {
  if (arc.when === null) return arc.carries === "failure" ? "on failure" : null;
  const bare = arc.when.replace(/^\{\{\s*|\s*\}\}$/g, "");
  return inTwoLines(bare.length > LABEL_CHARS_MAX ? `${bare.slice(0, LABEL_CHARS_MAX - 1)}…` : bare);
}

/** Broken at the space that is nearest to the middle: beside each other, long guards make a net wide and small. */
function inTwoLines(words: string): string {
  if (words.length <= LINE_CHARS_MAX) return words;
  const middle = words.length / 2;
  const spaces = [...words.matchAll(/ /g)].map(({ index }) => index);
  const [at] = spaces.sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle));
  return at === undefined ? words : `${words.slice(0, at)}\n${words.slice(at + 1)}`;
}

export function labelSize(label: string): Size {
  const lines = label.split("\n");
  const chars = Math.max(...lines.map((line) => line.length)) + 2; // with room for a sign: it fired, or not
  return { width: Math.round(chars * SMALL_CHAR + 14), height: 15 * lines.length + 6 };
}
