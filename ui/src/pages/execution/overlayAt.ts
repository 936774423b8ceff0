/** How each step and arc stood after a fact, from the timeline that the server gives. */

import type { ArcLine, Graph, StepLine, Timeline } from "../../api/types";
import type { ArcState, Overlay, StepState, StepTone } from "../../graph/overlay";
import { lastBelow } from "./clock";

type Counts = Record<string, number>;

export function countsAt(line: StepLine, names: readonly string[], seq: number): Counts | null {
  const sample = line.changes[lastBelow(line.changes, seq)];
  if (sample === undefined) return null;
  return Object.fromEntries(names.map((name, place) => [name, sample[place + 1] ?? 0]));
}

function toneOf(counts: Counts): StepTone {
  const { running = 0, scheduled = 0, parked = 0, waiting = 0, failed = 0, handled = 0, stopped = 0, ok = 0, tokens = 0 } = counts;
  if (running - parked > 0) return "running";
  if (parked > 0 || scheduled > 0 || waiting > 0) return "waiting";
  if (failed > handled) return "error";
  if (handled > 0 && ok === 0) return "handled";
  if (stopped > 0 && ok === 0) return "stopped";
  if (ok > 0) return "ok";
  return tokens > 0 ? "waiting" : "idle";
}

const WORDS: Record<StepTone, string> = {
  idle: "not reached", waiting: "waits", running: "running", ok: "done", error: "failed",
  handled: "failed, handled", stopped: "stopped",
};

function wordsOf(tone: StepTone, counts: Counts, why: string | null): string {
  if (tone !== "waiting") return WORDS[tone];
  if (why !== null) return why;
  if ((counts.parked ?? 0) > 0) return WORDS.waiting;
  if ((counts.scheduled ?? 0) > 0) return "waits for a worker";
  return (counts.waiting ?? 0) > 0 ? "waits to be admitted" : "a token has come";
}

/** Why a step waits is known for now only: the past has its own facts for it. */
function whyNow(timeline: Timeline, line: StepLine, seq: number): string | null {
  if (seq < timeline.seq) return null;
  const waiting = timeline.waiting.find((token) => token.step === line.step);
  return line.runs.findLast((run) => run.why != null)?.why ?? waiting?.why ?? null;
}

function stateOf(timeline: Timeline, line: StepLine, counts: Counts, seq: number): StepState {
  const tone = toneOf(counts);
  const { total = 0, done = 0, lost = 0, ok = 0, failed = 0, running = 0, scheduled = 0, stopped = 0 } = counts;
  return {
    tone,
    words: wordsOf(tone, counts, whyNow(timeline, line, seq)),
    tokens: counts.tokens ?? 0,
    runs: ok + failed + running + scheduled + stopped,
    retries: counts.retries ?? 0,
    progress: total > 0 ? { done, lost, total } : null,
  };
}

const NEVER: ArcState = { fired: 0, refused: 0 };

/** Of one step, the states of its drawn arcs, in their order.
 *
 * The place of an arc is that of its line, unless one before it leads to several steps: then where it leads
 * tells them apart, and arcs that have never fired stay as they are. */
function arcsOf(lines: readonly ArcLine[], targets: readonly string[], seq: number): ArcState[] {
  const stateOf = (line: ArcLine): ArcState => {
    const [, fired = 0, refused = 0] = line.changes[lastBelow(line.changes, seq)] ?? [];
    return { fired, refused };
  };
  const placed = lines.every((line) => line.to === null || targets[line.place] === line.to);
  return targets.map((target, place) => {
    const line = lines.find((each) => (placed ? each.place === place : each.to === target));
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
    // No arc was written and none was asked: what is done there ends there.
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
