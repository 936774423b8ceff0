import { get } from "../../api/client";
import type { FactDocument } from "../../api/types";
import { useResource } from "../../api/useResource";

/** One fact with all that was recorded. A fact never changes: the browser may ask once. */
export function useFact(id: string, seq: number | null | undefined) {
  const key = seq == null ? null : `${id}/${seq}`;
  return useResource<FactDocument>(key, (signal) => get(`/executions/${id}/facts/${seq ?? 0}`, {}, signal));
}
