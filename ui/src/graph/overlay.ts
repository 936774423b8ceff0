/** The state of an execution over its net: the state of each step, and how often each arc has fired. */

export type StepTone = "idle" | "waiting" | "running" | "ok" | "error" | "handled" | "stopped";

export interface StepState {
  tone: StepTone;
  text: string; // "running", "waits for the signal go"
  tokens: number;
  runs: number; // scheduled, running or ended
  retries: number;
  progress: Progress | null; // of a loop
}

/** The iterations of a loop. Those that are neither done, lost nor running wait, or were not run. */
export interface Progress {
  done: number; // succeeded
  lost: number; // failed
  running: number; // calls that take long: known for the present only
  total: number;
}

export interface ArcState {
  fired: number;
  refused: number;
}

export interface Overlay {
  steps: ReadonlyMap<string, StepState>;
  arcs: readonly ArcState[]; // in the order of the graph's arcs
}

/** The step to look at first: one that runs, has failed or waits; null: none does. */
export function mainStep({ steps }: Overlay): string | null {
  for (const tone of ["running", "error", "waiting"] as const) {
    for (const [name, state] of steps) if (state.tone === tone) return name;
  }
  return null;
}

export const NO_OVERLAY: Overlay = { steps: new Map(), arcs: [] };
