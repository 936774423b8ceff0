/** The state of each step and arc after a fact, computed from the timeline. */

import { waitsForShare } from "../../api/commands";
import type { ArcLine, Graph, RunningCall, StepLine, Timeline } from "../../api/types";
import type { ArcState, Overlay, StepState, StepTone } from "../../graph/overlay";
import { lastBelow } from "./clock";

type Counts = Record<string, number>;

export function countsAt(line: StepLine, names: readonly string[], seq: number): Counts | null {
  const sample = line.changes[lastBelow(line.changes, seq)];
  if (sample === undefined) return null;
  return Object.fromEntries(names.map((name, index) => [name, sample[index + 1] ?? 0]));
}

function toneOf(counts: Counts): StepTone {
  const { running = 0, scheduled = 0, parked = 0, waiting = 0, failed = 0, handled = 0, stopped = 0, ok = 0, tokens = 0 } = counts;
  const { total = 0, lost = 0 } = counts;
  if (running - parked > 0) return "running";
  if (parked > 0 || scheduled > 0 || waiting > 0) return "waiting";
  if (failed > handled) return "error";
  if (handled > 0 && ok === 0) return "handled";
  if (stopped > 0 && ok === 0) return "stopped";
  if (ok > 0) return lost === 0 ? "ok" : lost === total ? "error" : "handled";
  return tokens > 0 ? "waiting" : "idle";
}

const TEXTS: Record<StepTone, string> = {
  idle: "not reached", waiting: "waits", running: "running", ok: "done", error: "failed",
  handled: "failed, handled", stopped: "stopped",
};

function textOf(tone: StepTone, counts: Counts, why: string | null, call: RunningCall | null): string {
  if (tone === "running" && call !== null) return `running ${call.task}${call.worker ? ` on ${call.worker}` : ""}`;
  if (tone !== "waiting") return TEXTS[tone];
  if (why !== null) return why;
  if ((counts.parked ?? 0) > 0) return TEXTS.waiting;
  if ((counts.scheduled ?? 0) > 0) return "waits for a worker";
  return (counts.waiting ?? 0) > 0 ? "waits to be admitted" : "a token has arrived";
}

/** The reason why a step waits. It is known for the present only. */
function whyNow(timeline: Timeline, line: StepLine, seq: number): string | null {
  if (seq < timeline.seq) return null;
  const waiting = timeline.waiting.find((token) => token.step === line.step);
  return line.runs.findLast((run) => run.why != null)?.why ?? waiting?.why ?? timeline.why ?? null;
}

/** The last call that takes long. It is known for the present only. */
function callNow(timeline: Timeline, line: StepLine, seq: number): RunningCall | null {
  if (seq < timeline.seq) return null;
  return line.runs.flatMap((run) => run.running ?? []).at(-1) ?? null;
}

/** The number of calls that take long, in the newest run. */
function runningNow(timeline: Timeline, line: StepLine, seq: number): number {
  const run = seq < timeline.seq ? undefined : line.runs.at(-1);
  return run === undefined ? 0 : (run.running?.length ?? 0) + (run.running_left_out ?? 0);
}

/** Every unfinished run says why it does not advance: the execution is paused, or there is no worker. */
function isStalled(timeline: Timeline, line: StepLine, seq: number): boolean {
  const unfinished = seq < timeline.seq ? [] : line.runs.filter((run) => run.ended_at == null);
  return unfinished.length > 0 && unfinished.every((run) => run.why != null && !waitsForShare(run.why));
}

/** A run that a cancellation has stopped is shown like the execution. */
function stoppedText(timeline: Timeline): string {
  return timeline.status === "cancelled" ? "cancelled" : TEXTS.stopped;
}

function stateOf(timeline: Timeline, line: StepLine, counts: Counts, seq: number): StepState {
  const counted = toneOf(counts);
  const tone = counted === "running" && isStalled(timeline, line, seq) ? "waiting" : counted;
  const { total = 0, done = 0, lost = 0, ok = 0, failed = 0, running = 0, scheduled = 0, stopped = 0 } = counts;
  return {
    tone,
    text: tone === "stopped" ? stoppedText(timeline) : textOf(tone, counts, whyNow(timeline, line, seq), callNow(timeline, line, seq)),
    tokens: counts.tokens ?? 0,
    runs: ok + failed + running + scheduled + stopped,
    retries: counts.retries ?? 0,
    progress: total > 0 ? { done, lost, running: tone === "running" ? runningNow(timeline, line, seq) : 0, total } : null,
  };
}

const NEVER: ArcState = { fired: 0, refused: 0 };

/** The states of the arcs of one step, in drawing order.
 *
 * The place of an arc is that of its line, unless an earlier arc leads to several steps. Then the target
 * identifies the arc, and arcs that have never fired keep their state. */
function arcsOf(lines: readonly ArcLine[], targets: readonly string[], seq: number): ArcState[] {
  const stateOf = (line: ArcLine): ArcState => {
    const [, fired = 0, refused = 0] = line.changes[lastBelow(line.changes, seq)] ?? [];
    return { fired, refused };
  };
  const placed = lines.every((line) => line.to === null || targets[line.place] === line.to);
  return targets.map((target, index) => {
    const line = lines.find((each) => (placed ? each.place === index : each.to === target));
    return line === undefined ? NEVER : stateOf(line);
  });
}

function arcsAt(timeline: Timeline, graph: Graph, seq: number, steps: ReadonlyMap<string, StepState>): ArcState[] {
  const names = new Map(graph.steps.map((step) => [step.place, step.role === "end" ? "end" : step.name]));
  const entry = graph.steps.find((step) => step.role === "entry")?.place;
  const states = new Map<number, ArcState[]>();
  for (const { place, name } of graph.steps) {
    const targets = graph.arcs.filter((arc) => arc.start === place).map((arc) => names.get(arc.to) ?? "");
    states.set(place, arcsOf(timeline.arcs.filter((line) => line.step === name), targets, seq));
  }
  return graph.arcs.map((arc) => {
    if (arc.start === entry) return { fired: steps.size > 0 ? 1 : 0, refused: 0 };
    // A step without arcs leads to the end.
    if (arc.implied) return { fired: steps.get(names.get(arc.start) ?? "")?.tone === "ok" ? 1 : 0, refused: 0 };
    return states.get(arc.start)?.shift() ?? NEVER;
  });
}

export function overlayAt(timeline: Timeline, graph: Graph, seq: number): Overlay {
  const steps = new Map<string, StepState>();
  for (const line of timeline.steps) {
    const counts = countsAt(line, timeline.counts, seq);
    if (counts !== null) steps.set(line.step, stateOf(timeline, line, counts, seq));
  }
  return { steps, arcs: arcsAt(timeline, graph, seq, steps) };
}
