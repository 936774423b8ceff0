/** Draws the bars of a step on a canvas, which stays fast with thousands of runs. */

import { isLive, waitsForShare } from "../../api/commands";
import type { RunBar, StepLine, Timeline } from "../../api/types";
import { msAt } from "./clock";
import type { Scale } from "./timescale";

export interface Colours {
  ok: string;
  error: string;
  running: string;
  waiting: string;
  neutral: string;
  ground: string;
  text: string;
}

export function coloursOf(element: Element): Colours {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    ok: of("--ok-mark"), error: of("--error-mark"), running: of("--running-mark"), waiting: of("--waiting-mark"),
    neutral: of("--neutral-mark"), ground: of("--sunken"), text: of("--text-soft"),
  };
}

export interface Canvas {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
}

/** Clears the canvas and sets its resolution to that of the screen. Returns null when it is not visible. */
export function prepareCanvas(canvas: HTMLCanvasElement): Canvas | null {
  const { clientWidth: width, clientHeight: height } = canvas;
  const context = canvas.getContext("2d");
  if (context === null || width === 0) return null;
  const fine = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * fine);
  canvas.height = Math.round(height * fine);
  context.setTransform(fine, 0, 0, fine, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export const sinceStart = (timeline: Timeline, at: string): number => Date.parse(at) - Date.parse(timeline.started_at);

function colourOf(status: string, colours: Colours): string {
  if (status === "ok") return colours.ok;
  if (status === "error") return colours.error;
  if (status === "running") return colours.running;
  return status === "scheduled" ? colours.waiting : colours.neutral;
}

function box({ context }: Canvas, x: number, y: number, width: number, height: number): void {
  context.beginPath();
  context.roundRect(x, y, Math.max(2, width), height, Math.min(3, height / 2));
  context.fill();
}

/** A run: a thin line while it waits for a worker, then a bar. Small gaps separate its attempts. */
export function paintRun(canvas: Canvas, timeline: Timeline, scale: Scale, run: RunBar, colours: Colours): void {
  const { context, width, height } = canvas;
  const x = (at: string) => scale.x(sinceStart(timeline, at)) * width;
  const end = run.ended_at == null ? scale.x(scale.end) * width : x(run.ended_at);
  const scheduled = x(run.scheduled_at);
  const started = run.started_at == null ? end : x(run.started_at);
  context.fillStyle = colours.waiting;
  context.fillRect(scheduled, height / 2 - 1, Math.max(0, started - scheduled), 2);
  context.fillStyle = colourOf(run.why == null || waitsForShare(run.why) ? run.status : "scheduled", colours);
  const calls = run.calls ?? [];
  if (calls.length < 2 || run.iterations != null) {
    box(canvas, started, height / 2 - 6, end - started, 12);
    return;
  }
  context.globalAlpha = 0.35;
  box(canvas, started, height / 2 - 6, end - started, 12);
  context.globalAlpha = 1;
  for (const call of calls) {
    if (call.started_at == null) continue;
    const from = x(call.started_at);
    const until = scale.x(sinceStart(timeline, call.started_at) + (call.ms ?? 0)) * width;
    context.fillStyle = call.status === "error" ? colours.error : colours.ok;
    box(canvas, from, height / 2 - 6, Math.max(1, until - from - 1), 12);
  }
}

/** A loop: an area chart of its progress over time, with failed iterations on top. */
export function paintProgress(canvas: Canvas, timeline: Timeline, scale: Scale, line: StepLine, colours: Colours): void {
  const { context, width, height } = canvas;
  const at = (name: string) => timeline.counts.indexOf(name) + 1;
  const [total, done, lost] = [at("total"), at("done"), at("lost")];
  const points = line.changes
    .filter((sample) => (sample[total] ?? 0) > 0)
    .map((sample) => ({
      x: scale.x(msAt(timeline.clock, sample[0] ?? 0)) * width,
      all: ((sample[done] ?? 0) + (sample[lost] ?? 0)) / (sample[total] ?? 1),
      lost: (sample[lost] ?? 0) / (sample[total] ?? 1),
    }));
  // After the last iteration there is only routing, and no progress.
  const whole = points.findIndex((point) => point.all >= 1);
  if (whole >= 0) points.length = whole + 1;
  const last = points.at(-1);
  const [first] = points;
  if (first === undefined || last === undefined) return;
  const low = height - 3;
  const room = height - 6;
  const area = (share: (point: (typeof points)[number]) => number) => {
    context.beginPath();
    context.moveTo(first.x, low);
    for (const point of points) context.lineTo(point.x, low - room * share(point));
    context.lineTo(Math.max(last.x, first.x + 2), low);
    context.fill();
  };
  const run = line.runs.at(-1);
  const ended = run?.ended_at != null;
  context.fillStyle = ended && run.status === "error" ? colours.error : colours.running;
  context.globalAlpha = 0.28;
  const until = !ended && isLive(timeline.status) ? width : last.x; // it still runs
  context.fillRect(first.x, 3, Math.max(2, until - first.x), room);
  context.globalAlpha = 1;
  context.fillStyle = ended || last.all >= 1 ? colours.ok : colours.running;
  area((point) => point.all);
  context.fillStyle = colours.error;
  area((point) => point.lost);
}
