/** The plan of a fork as states of the steps of the net. */

import type { ForkPlan, Graph } from "../../../api/types";
import type { Overlay, StepState } from "../../../graph/overlay";

const state = (tone: StepState["tone"], text: string): StepState => ({ tone, text, tokens: 0, runs: 0, retries: 0, progress: null });

/** The step of a run such as `fetch#2`. */
export const stepOf = (run: string): string => run.replace(/#\d+.*$/, "");

export function planOverlay(plan: ForkPlan, graph: Graph): Overlay {
  const steps = new Map<string, StepState>();
  for (const step of plan.new) steps.set(step, state("running", "new"));
  for (const run of plan.kept) steps.set(stepOf(run), state("ok", "kept"));
  // A step with kept and repeated runs is shown as repeated.
  for (const { run, why } of plan.redone) steps.set(stepOf(run), state("waiting", `redone: ${why}`));
  return { steps, arcs: graph.arcs.map(() => ({ fired: 0, refused: 0 })) };
}
