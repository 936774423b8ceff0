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

export function sizeOf(step: StepDrawn): Size {
  if (step.role === "entry" || step.role === "end") return MARK;
  const badges = [step.join, step.gate, step.fork].filter(Boolean).length * 40;
  const title = step.name.length * TITLE_CHAR + 98 + badges;
  const kinds = step.kinds.join(" · ").length * SMALL_CHAR + 64;
  const least = step.loop === null ? 168 : 216; // a loop counts: "running 5,222/10,000"
  return { width: Math.round(Math.min(280, Math.max(least, title, kinds))), height: step.loop === null ? 62 : 70 };
}

/** The words on an arc; null: it has none. */
export function labelOf(arc: ArcDrawn): string | null {
  if (arc.when === null) return arc.carries === "failure" ? "on failure" : null;
  const bare = arc.when.replace(/^\{\{\s*|\s*\}\}$/g, "");
  return bare.length > LABEL_CHARS_MAX ? `${bare.slice(0, LABEL_CHARS_MAX - 1)}…` : bare;
}

export function labelSize(label: string): Size {
  return { width: Math.round(label.length * SMALL_CHAR + 14), height: 20 };
}
