/** Iterations in pages: only those that are visible are loaded. */

import { useCallback, useEffect, useReducer, useRef, useState } from "react";
import { get } from "../../../api/client";
import { wasAborted } from "../../../api/problem";
import type { Iteration, IterationsPage } from "../../../api/types";

const PAGE = 100;
const PAGES_MAX = 50;
const DEBOUNCE_MS = 60;

export interface IterationFilter {
  run: string;
  status: string | null;
  text: string;
}

/** `version`: a longer log loads the visible pages again. */
export function usePages(id: string, filter: IterationFilter, version: number) {
  const key = JSON.stringify([id, filter]);
  const pages = useRef(new Map<number, { version: number; items: Iteration[] }>());
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const visible = useRef<[number, number]>([0, 0]);
  const [state, setState] = useState<{ key: string; summary: IterationsPage | null; error: unknown }>({ key, summary: null, error: undefined });
  const [, redraw] = useReducer((turn: number) => turn + 1, 0);
  const now = useRef({ key, version });
  useEffect(() => {
    now.current = { key, version };
  }, [key, version]);

  const read = useCallback(
    async (page: number, signal?: AbortSignal) => {
      const [execution, wanted] = JSON.parse(key) as [string, IterationFilter];
      const asked = now.current.version;
      try {
        const found = await get<IterationsPage>(`/executions/${execution}/iterations`, { ...wanted, offset: page * PAGE, limit: PAGE }, signal);
        if (now.current.key !== key) return;
        pages.current.delete(page);
        pages.current.set(page, { version: asked, items: found.items });
        const [oldest] = pages.current.keys();
        if (pages.current.size > PAGES_MAX && oldest !== undefined) pages.current.delete(oldest);
        setState({ key, summary: found, error: undefined });
        redraw();
      } catch (error) {
        if (!wasAborted(error)) setState((old) => ({ ...old, key, error }));
      }
    },
    [key],
  );
  useEffect(() => {
    const abort = new AbortController();
    pages.current.clear();
    void read(0, abort.signal);
    return () => abort.abort();
  }, [read]);

  const load = useCallback(
    (first: number, last: number) => {
      visible.current = [first, last];
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) {
          if ((pages.current.get(page)?.version ?? -1) < now.current.version) void read(page);
        }
      }, DEBOUNCE_MS);
    },
    [read],
  );
  useEffect(() => {
    load(...visible.current);
    return () => clearTimeout(timer.current);
  }, [version, load]);

  const at = (place: number): Iteration | undefined => pages.current.get(Math.floor(place / PAGE))?.items[place % PAGE];
  return { summary: state.key === key ? state.summary : null, error: state.key === key ? state.error : undefined, at, load };
}
