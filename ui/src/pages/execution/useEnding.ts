/** How an execution ended: its last fact but one says it, however long the log is. */

import type { FactDocument, Timeline } from "../../api/types";
import { isMapping } from "./data/shapes";
import { useFact } from "./useFact";

export function useEnding({ execution_id: id, seq }: Timeline) {
  return useFact(id, seq - 1);
}

interface FailureTold {
  kind: string;
  message: string;
  details: unknown;
}

/** Why it failed; null: it did not, or it is not known yet. */
export function failureIn(ending: FactDocument | undefined): FailureTold | null {
  const error = ending?.data.error;
  return isMapping(error) ? { kind: String(error.kind), message: String(error.message), details: error.details } : null;
}
