/** The time axis: linear while something runs; a long idle time is shown as a short break. */

import { isLive } from "../../api/commands";
import type { Timeline } from "../../api/types";
import { duration } from "../../design/time";
import { type Samples, msAt } from "./clock";

export interface Gap {
  from: number; // milliseconds since the start
  to: number;
}

export interface Scale {
  gaps: Gap[];
  end: number; // in milliseconds
  x: (ms: number) => number; // 0 to 1
  ms: (x: number) => number;
}

const BREAK = 0.065; // of the width
const BREAKS_MAX = 8;
const GAP_SHARE = 0.12; // the minimum share of the total time for a break
const GAP_MS_MIN = 1000;

/** The times when nothing ran: all steps were parked, or none had started. `end` as in scaleOf. */
export function idleGaps(timeline: Timeline, end: number): Gap[] {
  const at = (name: string) => timeline.counts.indexOf(name) + 1;
  const [running, parked] = [at("running"), at("parked")];
  const changes: [number, number][] = []; // seq, and the change in the number of busy runs
  for (const line of timeline.steps) {
    let before = 0;
    for (const sample of line.changes) {
      const busy = (sample[running] ?? 0) - (sample[parked] ?? 0);
      if (busy !== before) changes.push([sample[0] ?? 0, busy - before]);
      before = busy;
    }
  }
  changes.sort(([one], [other]) => one - other);
  const gaps: Gap[] = [];
  let busy = 0;
  let since = 1;
  for (const [index, [seq, by]] of changes.entries()) {
    if (busy === 0) gaps.push({ from: msAt(timeline.clock, since), to: msAt(timeline.clock, seq) });
    busy += by;
    if (changes[index + 1]?.[0] !== seq && busy === 0) since = seq;
  }
  if (busy === 0 && isLive(timeline.status)) gaps.push({ from: msAt(timeline.clock, since), to: end });
  return gaps;
}

/** `end`: the end of the axis, in milliseconds since the start. */
export function scaleOf(idle: readonly Gap[], end: number): Scale {
  const least = Math.max(GAP_MS_MIN, end * GAP_SHARE);
  const gaps = idle
    .filter((gap) => gap.to - gap.from >= least)
    .sort((one, other) => other.to - other.from - (one.to - one.from))
    .slice(0, BREAKS_MAX)
    .sort((one, other) => one.from - other.from);
  const folded = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const perMs = (1 - BREAK * gaps.length) / Math.max(1, end - folded);
  const stops: [number, number][] = [[0, 0]]; // ms, x
  let x = 0;
  let ms = 0;
  for (const gap of gaps) {
    x += (gap.from - ms) * perMs;
    stops.push([gap.from, x], [gap.to, x + BREAK]);
    x += BREAK;
    ms = gap.to;
  }
  stops.push([Math.max(end, ms), 1]);
  return {
    gaps,
    end,
    x: (value) => interpolated(stops, value, 0),
    ms: (value) => interpolated(stops, value, 1),
  };
}

/** The labels of the axis. If two labels near a break are equal, only the later one is shown. */
export function marksOf(scale: Scale): { x: number; label: string }[] {
  const marks = [0, 0.25, 0.5, 0.75, 1].map((x) => ({ x, label: duration(scale.ms(x) / 1000) }));
  return marks.filter(({ x, label }, index) => x === 0 || (label !== marks[0]?.label && label !== marks[index + 1]?.label));
}

function interpolated(stops: Samples, value: number, column: 0 | 1): number {
  const other = column === 0 ? 1 : 0;
  const last = stops.length - 1;
  let index = 0;
  while (index < last - 1 && (stops[index + 1]?.[column] ?? Infinity) <= value) index += 1;
  const [low, high] = [stops[index], stops[index + 1]];
  const [from = 0, start = 0] = [low?.[column], low?.[other]];
  const [to = from, end = start] = [high?.[column], high?.[other]];
  const share = to === from ? 1 : Math.min(1, Math.max(0, (value - from) / (to - from)));
  return start + share * (end - start);
}
