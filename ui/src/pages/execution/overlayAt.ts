/** How each step and arc stood after a fact, from the timeline that the server gives. */

import type { ArcDrawn, Graph, StepLine, Timeline } from "../../api/types";
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

/** A drawn arc by the step that it leaves and where it leads; of several such the first, the second, … */
function arcKeys(graph: Graph): string[] {
  const seen = new Map<string, number>();
  const names = new Map(graph.steps.map((step) => [step.place, step.role === "end" ? "end" : step.name]));
  return graph.arcs.map((arc: ArcDrawn) => {
    const key = `${names.get(arc.start) ?? ""}\n${names.get(arc.to) ?? ""}`;
    const number = seen.get(key) ?? 0;
    seen.set(key, number + 1);
    return `${key}\n${number}`;
  });
}

function arcsAt(timeline: Timeline, graph: Graph, seq: number): ArcState[] {
  const seen = new Map<string, number>();
  const states = new Map<string, ArcState>();
  const refusals = new Map<string, ArcState>(); // by step and place: arcs that have never fired name no target
  for (const line of [...timeline.arcs].sort((one, other) => one.place - other.place)) {
    const [, fired = 0, refused = 0] = line.changes[lastBelow(line.changes, seq)] ?? [];
    refusals.set(`${line.step}\n${line.place}`, { fired, refused });
    if (line.to === null) continue;
    const key = `${line.step}\n${line.to}`;
    const number = seen.get(key) ?? 0;
    seen.set(key, number + 1);
    states.set(`${key}\n${number}`, { fired, refused });
  }
  const places = new Map<number, number>();
  const names = new Map(graph.steps.map((step) => [step.place, step.name]));
  return arcKeys(graph).map((key, place) => {
    const start = graph.arcs[place]?.start ?? -1;
    const order = places.get(start) ?? 0;
    places.set(start, order + 1);
    if (names.get(start) === "" && timeline.seq > 0) return { fired: 1, refused: 0 };
    return states.get(key) ?? refusals.get(`${names.get(start) ?? ""}\n${order}`) ?? { fired: 0, refused: 0 };
  });
}

export function overlayAt(timeline: Timeline, graph: Graph, seq: number): Overlay {
  const steps = new Map<string, StepState>();
  for (const line of timeline.steps) {
    const counts = countsAt(line, timeline.counts, seq);
    if (counts !== null) steps.set(line.step, stateOf(timeline, line, counts, seq));
  }
  return { steps, arcs: arcsAt(timeline, graph, seq) };
}
