/** Loads the state at the cursor, once the cursor stops moving. The latest request wins. */

import { useEffect, useRef, useState } from "react";
import { get } from "../../api/client";
import { wasAborted } from "../../api/problem";
import type { Moment } from "../../api/types";

export type Ctx = Record<string, unknown>;

export interface MomentState {
  moment: Moment | null; // the last one loaded; its `fact.seq` tells its position
  ctx: Ctx;
  error: unknown;
  fresh: boolean; // it belongs to the position of the cursor
}

const DEBOUNCE_MS = 40;
const CACHE_MAX = 400;

export function useMoment(id: string, seq: number): MomentState {
  const cache = useRef(new Map<string, Moment>());
  const contexts = useRef(new Map<string, Ctx>());
  const [loaded, setLoaded] = useState<{ id: string; moment: Moment | null; ctx: Ctx; error: unknown }>({
    id, moment: null, ctx: {}, error: undefined,
  });

  useEffect(() => {
    if (seq < 1) return;
    const abort = new AbortController();
    const show = (moment: Moment) => {
      const ctx = moment.ctx ?? contexts.current.get(`${id}/${moment.ctx_seq}`) ?? {};
      setLoaded({ id, moment, ctx, error: undefined });
    };
    const load = async () => {
      const known = cache.current.get(`${id}/${seq}`);
      if (known !== undefined && contexts.current.has(`${id}/${known.ctx_seq}`)) {
        show(known);
        return;
      }
      const have = newest(contexts.current, id, seq);
      try {
        const moment = await get<Moment>(`/executions/${id}/moment`, { at: seq, have }, abort.signal);
        if (moment.ctx !== null) store(contexts.current, `${id}/${moment.ctx_seq}`, moment.ctx, 20);
        store(cache.current, `${id}/${seq}`, { ...moment, ctx: null }, CACHE_MAX);
        show(moment);
      } catch (error) {
        if (!wasAborted(error)) setLoaded((old) => ({ ...old, id, error }));
      }
    };
    const timer = setTimeout(() => void load(), cache.current.has(`${id}/${seq}`) ? 0 : DEBOUNCE_MS);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id, seq]);

  const current = loaded.id === id ? loaded : { moment: null, ctx: {}, error: undefined };
  return { ...current, fresh: current.moment?.fact.seq === seq };
}

/** The newest cached context that can still be valid at this position. */
function newest(contexts: ReadonlyMap<string, Ctx>, id: string, seq: number): number | null {
  let found: number | null = null;
  for (const key of contexts.keys()) {
    const at = key.startsWith(`${id}/`) ? Number(key.slice(id.length + 1)) : Infinity;
    if (at <= seq && (found === null || at > found)) found = at;
  }
  return found;
}

function store<T>(map: Map<string, T>, key: string, value: T, most: number): void {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}
