/** Loads the facts of a log page by page: those that are visible, or those that match a filter. */

import { useCallback, useEffect, useReducer, useRef } from "react";
import { get } from "../../api/client";
import type { FactLine, FactsPage } from "../../api/types";

export interface FactFilter {
  kind: string | null;
  step: string | null;
  text: string | null;
  bad: boolean;
}

export const isFiltered = (filter: FactFilter): boolean =>
  filter.kind !== null || filter.step !== null || filter.text !== null || filter.bad;

const PAGE = 200;
const PAGES_MAX = 40;
const FILTERED_PAGE = 500;
const DEBOUNCE_MS = 40;

/** All facts, one row each: the position in the list is the position in the log. */
export function useFactPages(id: string, last: number) {
  const pages = useRef(new Map<number, FactLine[]>());
  const reading = useRef(new Set<number>());
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  useEffect(() => {
    pages.current.clear();
    redraw();
  }, [id]);

  const read = useCallback(
    async (page: number) => {
      if (reading.current.has(page)) return;
      reading.current.add(page);
      try {
        const { items } = await get<FactsPage>(`/executions/${id}/facts`, { after: page * PAGE, limit: PAGE });
        pages.current.delete(page);
        pages.current.set(page, items);
        const [oldest] = pages.current.keys();
        if (pages.current.size > PAGES_MAX && oldest !== undefined) pages.current.delete(oldest);
        redraw();
      } catch {
        // The rows stay empty and are requested again when they become visible.
      } finally {
        reading.current.delete(page);
      }
    },
    [id],
  );
  const load = useCallback(
    (first: number, until: number) => {
      clearTimeout(timer.current);
      // Skip rows that are visible only for a moment while scrolling.
      timer.current = setTimeout(() => {
        for (let page = Math.floor(first / PAGE); page <= Math.floor(until / PAGE); page += 1) {
          const wanted = Math.min(PAGE, last - page * PAGE);
          if ((pages.current.get(page)?.length ?? 0) < wanted) void read(page);
        }
      }, DEBOUNCE_MS);
    },
    [read, last],
  );
  const at = (index: number): FactLine | undefined => pages.current.get(Math.floor(index / PAGE))?.[index % PAGE];
  return { at, load };
}

interface FilteredFacts {
  key: string;
  items: FactLine[];
  next: number | null;
  done: boolean;
}

type Action = { kind: "clear"; key: string } | { kind: "page"; key: string; page: FactsPage };

function reduce(found: FilteredFacts, action: Action): FilteredFacts {
  if (action.kind === "clear") return { key: action.key, items: [], next: 0, done: false };
  if (action.key !== found.key) return found;
  const next = action.page.next ?? null;
  return { key: found.key, items: [...found.items, ...action.page.items], next, done: next === null };
}

/** The facts that match a filter. Reads until it finds some; `loadMore` continues. */
export function useFilteredFacts(id: string, filter: FactFilter, last: number) {
  const key = isFiltered(filter) ? `${id} ${JSON.stringify(filter)}` : "";
  const [found, dispatch] = useReducer(reduce, { key: "", items: [], next: null, done: true });
  const busy = useRef(false);

  const read = useCallback(
    async (after: number, signal?: AbortSignal) => {
      const wanted = JSON.parse(key.slice(id.length + 1)) as FactFilter;
      busy.current = true;
      try {
        const query = { ...wanted, bad: wanted.bad || null, after, limit: FILTERED_PAGE };
        let page = await get<FactsPage>(`/executions/${id}/facts`, query, signal);
        while (page.items.length === 0 && page.next != null) {
          page = await get<FactsPage>(`/executions/${id}/facts`, { ...query, after: page.next }, signal);
        }
        if (signal?.aborted !== true) dispatch({ kind: "page", key, page });
      } catch {
        // The filter has changed, or the server is unreachable, which the timeline reports.
      } finally {
        busy.current = false;
      }
    },
    [id, key],
  );
  useEffect(() => {
    if (key === "") return;
    const abort = new AbortController();
    dispatch({ kind: "clear", key });
    void read(0, abort.signal);
    return () => abort.abort();
  }, [key, read]);

  const { next, items, done } = found.key === key ? found : { next: null, items: [], done: false };
  const lastSeq = items.at(-1)?.seq ?? 0;
  useEffect(() => {
    // The log has grown since its end was read.
    if (key !== "" && done && last > lastSeq && !busy.current) {
      const timer = setTimeout(() => void read(lastSeq), 500);
      return () => clearTimeout(timer);
    }
    return undefined;
  }, [last]); // eslint-disable-line react-hooks/exhaustive-deps -- only a longer log triggers a request
  const loadMore = useCallback(() => {
    if (next !== null && next > 0 && !busy.current) void read(next);
  }, [next, read]);
  return { items, done, loadMore };
}
