/** Estimated sizes of cards and labels: the layout needs them before anything is rendered. */

import type { GraphArc, GraphStep } from "../api/types";

export interface Size {
  width: number;
  height: number;
}

const MARK: Size = { width: 26, height: 26 };
const TITLE_CHAR = 8.8; // pixels, in the widest system font
const SMALL_CHAR = 6.6;
const LABEL_CHARS_MAX = 30;
const LINE_CHARS_MAX = 18;

export function sizeOf(step: GraphStep): Size {
  if (step.role === "entry" || step.role === "end") return MARK;
  const badges = [step.join, step.gate, step.fork].filter(Boolean).length * 40;
  const title = step.name.length * TITLE_CHAR + 98 + badges;
  const kinds = step.kinds.join(" · ").length * SMALL_CHAR + 64;
  // Room for "99,222 ok · 3 failed · 64 running" in a loop, or for the reason of a wait.
  const least = step.loop !== null || step.kinds.includes("wait") ? 240 : 168;
  return { width: Math.round(Math.min(280, Math.max(least, title, kinds))), height: step.loop === null ? 62 : 78 };
}

/** The label of an arc; null: it has none. */
export function labelOf(arc: GraphArc): string | null {
  if (arc.when === null) return arc.carries === "failure" ? "on failure" : null;
  const bare = arc.when.replace(/^\{\{\s*|\s*\}\}$/g, "");
  return onTwoLines(bare.length > LABEL_CHARS_MAX ? `${bare.slice(0, LABEL_CHARS_MAX - 1)}…` : bare);
}

/** Breaks a long text at the space nearest to its middle: long labels on one line make the net wide and small. */
function onTwoLines(text: string): string {
  if (text.length <= LINE_CHARS_MAX) return text;
  const middle = text.length / 2;
  const spaces = [...text.matchAll(/ /g)].map(({ index }) => index);
  const [at] = spaces.sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle));
  return at === undefined ? text : `${text.slice(0, at)}\n${text.slice(at + 1)}`;
}

export function labelSize(label: string): Size {
  const lines = label.split("\n");
  const chars = Math.max(...lines.map((line) => line.length)) + 2; // with room for the icon that shows whether it fired
  return { width: Math.round(chars * SMALL_CHAR + 14), height: 15 * lines.length + 6 };
}
