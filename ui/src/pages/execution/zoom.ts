/** The part of the timeline that is shown: a range of the whole scale, from 0 to 1. */

import type { Scale } from "./timescale";

export interface Range {
  from: number;
  to: number;
}

export const WHOLE: Range = { from: 0, to: 1 };
const LEAST = 0.0005; // of the whole width
const STEP = 2; // zoom of one click

export const isWhole = ({ from, to }: Range): boolean => from <= 0 && to >= 1;

/** The range with this width around a point, moved inside of the whole. */
function around(centre: number, width: number): Range {
  const size = Math.min(1, Math.max(LEAST, width));
  const from = Math.min(1 - size, Math.max(0, centre - size / 2));
  return { from, to: from + size };
}

/** `centre`: what stays in the middle; it is ignored if it is outside of the range. */
export function zoomed(range: Range, direction: "in" | "out", centre: number): Range {
  const inside = centre >= range.from && centre <= range.to;
  const width = range.to - range.from;
  return around(inside ? centre : range.from + width / 2, direction === "in" ? width / STEP : width * STEP);
}

/** By half of what is shown. */
export function moved(range: Range, direction: "earlier" | "later"): Range {
  const width = range.to - range.from;
  return around(range.from + width / 2 + (direction === "later" ? width / 2 : -width / 2), width);
}

/** The range between two points of what is shown, in any order. */
export function selected(range: Range, one: number, other: number): Range {
  const width = range.to - range.from;
  const at = (x: number) => range.from + Math.min(1, Math.max(0, x)) * width;
  const [from, to] = [at(Math.min(one, other)), at(Math.max(one, other))];
  return around((from + to) / 2, to - from);
}

/** The scale of the part that is shown. */
export function scaleWithin(scale: Scale, { from, to }: Range): Scale {
  const width = to - from;
  return {
    ...scale,
    gaps: scale.gaps.filter((gap) => scale.x(gap.to) > from && scale.x(gap.from) < to),
    x: (ms) => (scale.x(ms) - from) / width,
    ms: (x) => scale.ms(from + x * width),
  };
}
