/** The facts of a log as lines: the page around what is in sight, or all that fit a filter, page by page. */

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
const FOUND_PAGE = 500;
const REST_MS = 40;

/** Every fact is a row, so that a place in the log is a place in the list. */
export function useLog(id: string, last: number) {
  const pages = useRef(new Map<number, FactLine[]>());
  const reading = useRef(new Set<number>());
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [, drawAnew] = useReducer((turn: number) => turn + 1, 0);
  useEffect(() => {
    pages.current.clear();
    drawAnew();
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
        drawAnew();
      } catch {
        // The rows stay empty; they are asked for again when they come into sight again.
      } finally {
        reading.current.delete(page);
      }
    },
    [id],
  );
  const look = useCallback(
    (first: number, until: number) => {
      clearTimeout(timer.current);
      // What only flies by is not read.
      timer.current = setTimeout(() => {
        for (let page = Math.floor(first / PAGE); page <= Math.floor(until / PAGE); page += 1) {
          const wanted = Math.min(PAGE, last - page * PAGE);
          if ((pages.current.get(page)?.length ?? 0) < wanted) void read(page);
        }
      }, REST_MS);
    },
    [read, last],
  );
  const at = (place: number): FactLine | undefined => pages.current.get(Math.floor(place / PAGE))?.[place % PAGE];
  return { at, look };
}

interface Found {
  key: string;
  items: FactLine[];
  next: number | null;
  done: boolean;
}

type News = { kind: "clear"; key: string } | { kind: "page"; key: string; page: FactsPage };

function reduce(found: Found, news: News): Found {
  if (news.kind === "clear") return { key: news.key, items: [], next: 0, done: false };
  if (news.key !== found.key) return found;
  const next = news.page.next ?? null;
  return { key: found.key, items: [...found.items, ...news.page.items], next, done: next === null };
}

/** Those that fit. The log is looked through as far as there is something to show, and on when asked. */
export function useFound(id: string, filter: FactFilter, last: number) {
  const key = isFiltered(filter) ? `${id} ${JSON.stringify(filter)}` : "";
  const [found, tell] = useReducer(reduce, { key: "", items: [], next: null, done: true });
  const busy = useRef(false);

  const read = useCallback(
    async (after: number, signal?: AbortSignal) => {
      const wanted = JSON.parse(key.slice(id.length + 1)) as FactFilter;
      busy.current = true;
      try {
        const query = { ...wanted, bad: wanted.bad || null, after, limit: FOUND_PAGE };
        let page = await get<FactsPage>(`/executions/${id}/facts`, query, signal);
        while (page.items.length === 0 && page.next != null) {
          page = await get<FactsPage>(`/executions/${id}/facts`, { ...query, after: page.next }, signal);
        }
        if (signal?.aborted !== true) tell({ kind: "page", key, page });
      } catch {
        // A filter that was left, or a server that is away: the timeline says so.
      } finally {
        busy.current = false;
      }
    },
    [id, key],
  );
  useEffect(() => {
    if (key === "") return;
    const abort = new AbortController();
    tell({ kind: "clear", key });
    void read(0, abort.signal);
    return () => abort.abort();
  }, [key, read]);

  const { next, items, done } = found.key === key ? found : { next: null, items: [], done: false };
  const seen = items.at(-1)?.seq ?? 0;
  useEffect(() => {
    // The log has grown since it was read to its end.
    if (key !== "" && done && last > seen && !busy.current) {
      const timer = setTimeout(() => void read(seen), 500);
      return () => clearTimeout(timer);
    }
    return undefined;
  }, [last]); // eslint-disable-line react-hooks/exhaustive-deps -- only what is new in the log asks again
  const more = useCallback(() => {
    if (next !== null && next > 0 && !busy.current) void read(next);
  }, [next, read]);
  return { items, done, more };
}
