/** The state of an execution over its net: the state of each step, and how often each arc has fired. */

export type StepTone = "idle" | "waiting" | "running" | "ok" | "error" | "handled" | "stopped";

export interface StepState {
  tone: StepTone;
  text: string; // "running", "waits for the signal go"
  tokens: number;
  runs: number; // scheduled, running or ended
  retries: number;
  progress: { done: number; lost: number; total: number } | null;
}

export interface ArcState {
  fired: number;
  refused: number;
}

export interface Overlay {
  steps: ReadonlyMap<string, StepState>;
  arcs: readonly ArcState[]; // in the order of the graph's arcs
}

export const NO_OVERLAY: Overlay = { steps: new Map(), arcs: [] };
