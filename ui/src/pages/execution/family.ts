/** The parent and child executions of an execution. */

import type { Timeline } from "../../api/types";

/** Whether it was called, or calls others. The marks of a timeline contain the first calls. */
export function hasFamily(timeline: Timeline): boolean {
  const calls = timeline.marks.some((mark) => mark.words.startsWith("waits for the playbook"));
  return timeline.parent !== null || calls || timeline.steps.some((line) => line.runs.some((run) => run.child != null));
}
