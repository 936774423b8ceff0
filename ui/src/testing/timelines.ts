/** Timelines and nets for tests, in the format of the API. */

import type { Graph, RunBar, GraphStep, StepLine, Timeline } from "../api/types";

export const COUNTS = [
  "tokens", "waiting", "scheduled", "running", "parked", "ok", "failed", "handled", "stopped", "retries", "total", "done", "lost",
];

/** A sample of the counts of a step; counts that are not named are 0. */
export function sample(seq: number, counts: Record<string, number>): number[] {
  return [seq, ...COUNTS.map((name) => counts[name] ?? 0)];
}

export function stepLine(step: string, changes: number[][], runs: RunBar[] = []): StepLine {
  return { step, changes, runs, runs_left_out: 0 };
}

export function runBar(id: string, more: Partial<RunBar> = {}): RunBar {
  return { id, step: id.split("#")[0] ?? id, status: "ok", scheduled_seq: 4, scheduled_at: "2026-01-01T00:00:00Z", ...more };
}

export function timelineOf(more: Partial<Timeline> = {}): Timeline {
  return {
    execution_id: "0199b3c2", path: "t", digest: "d", by: "local", parent: null, status: "ok", seq: 10,
    started_at: "2026-01-01T00:00:00Z", updated_at: "2026-01-01T00:00:10Z", counts: COUNTS, steps: [], arcs: [],
    waiting: [], signals: [], marks: [], marks_left_out: 0, clock: [[1, 0], [10, 10_000]], writes: [], kinds: {}, ...more,
  };
}

function drawn(place: number, name: string, role: GraphStep["role"] = "step"): GraphStep {
  return {
    place, role, name, desc: null, kinds: ["noop"], loop: null, join: false, fork: false, gate: false, reached: true,
    line: 1, column: 1, x: 0, y: 0, width: 100, height: 50,
  };
}

/** ● → start → a | b → end, in the notation of `noetl explain`. */
export function graphOf(arcs: [number, number][] = [[0, 1], [1, 2], [1, 3], [2, 4], [3, 4]]): Graph {
  return {
    name: "t", desc: null,
    steps: [drawn(0, "", "entry"), drawn(1, "start"), drawn(2, "a"), drawn(3, "b"), drawn(4, "", "end")],
    arcs: arcs.map(([start, to]) => ({
      start, to, when: null, carries: "success", back: false, dead: false, implied: false, points: [[0, 0], [1, 1]],
    })),
  };
}
