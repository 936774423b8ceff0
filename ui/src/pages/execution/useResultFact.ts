/** The result of an execution: it is in the second to last fact of the log. */

import type { Fact, Timeline } from "../../api/types";
import { isObject } from "./data/shapes";
import { useFact } from "./useFact";

export function useResultFact({ execution_id: id, seq }: Timeline) {
  return useFact(id, seq - 1);
}

interface FailureInfo {
  kind: string;
  message: string;
  details: unknown;
  cause: unknown;
}

/** The error; null: it did not fail, or the fact is not loaded yet. */
export function failureOf(fact: Fact | undefined): FailureInfo | null {
  const error = fact?.data.error;
  if (!isObject(error)) return null;
  return { kind: String(error.kind), message: String(error.message), details: error.details, cause: error.cause };
}
