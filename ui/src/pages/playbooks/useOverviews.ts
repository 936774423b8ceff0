/** What the catalog shows of playbooks besides their versions, for the rows that are shown. */

import { request } from "../../api/client";
import type { PlaybookOverview, PlaybookOverviewList } from "../../api/types";
import { useResource } from "../../api/useResource";

const AT_ONCE = 100; // playbooks of one request

async function overviews(paths: readonly string[], signal: AbortSignal): Promise<Map<string, PlaybookOverview>> {
  const found = new Map<string, PlaybookOverview>();
  for (let first = 0; first < paths.length; first += AT_ONCE) {
    const query = new URLSearchParams(paths.slice(first, first + AT_ONCE).map((path) => ["path", path]));
    const { items } = await request<PlaybookOverviewList>(`/playbooks/overviews?${query.toString()}`, { signal });
    for (const each of items) found.set(each.path, each);
  }
  return found;
}

export function useOverviews(paths: readonly string[]) {
  return useResource(paths.length === 0 ? null : paths.join("\n"), (signal) => overviews(paths, signal));
}
