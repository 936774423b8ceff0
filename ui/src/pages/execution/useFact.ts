import { get } from "../../api/client";
import type { Fact } from "../../api/types";
import { useResource } from "../../api/useResource";

/** One fact with all its data. A fact never changes, so one request is enough. */
export function useFact(id: string, seq: number | null | undefined) {
  const key = seq == null ? null : `${id}/${seq}`;
  return useResource<Fact>(key, (signal) => get(`/executions/${id}/facts/${seq ?? 0}`, {}, signal));
}
