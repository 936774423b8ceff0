/** What the server says of the moment under the cursor: asked when the cursor rests, the latest wish wins. */

import { useEffect, useRef, useState } from "react";
import { get } from "../../api/client";
import { wasAborted } from "../../api/problem";
import type { Moment } from "../../api/types";

export type Ctx = Record<string, unknown>;

export interface MomentShown {
  moment: Moment | null; // the last that was told; its own seq says of when
  ctx: Ctx;
  error: unknown;
  fresh: boolean; // it is of the cursor's place
}

const REST_MS = 40;
const KEPT_MAX = 400;

export function useMoment(id: string, seq: number): MomentShown {
  const kept = useRef(new Map<string, Moment>());
  const contexts = useRef(new Map<string, Ctx>());
  const [told, setTold] = useState<{ id: string; moment: Moment | null; ctx: Ctx; error: unknown }>({
    id, moment: null, ctx: {}, error: undefined,
  });

  useEffect(() => {
    if (seq < 1) return;
    const abort = new AbortController();
    const show = (moment: Moment) => {
      const ctx = moment.ctx ?? contexts.current.get(`${id}/${moment.ctx_seq}`) ?? {};
      setTold({ id, moment, ctx, error: undefined });
    };
    const ask = async () => {
      const known = kept.current.get(`${id}/${seq}`);
      if (known !== undefined && contexts.current.has(`${id}/${known.ctx_seq}`)) {
        show(known);
        return;
      }
      const have = newest(contexts.current, id, seq);
      try {
        const moment = await get<Moment>(`/executions/${id}/moment`, { at: seq, have }, abort.signal);
        if (moment.ctx !== null) keep(contexts.current, `${id}/${moment.ctx_seq}`, moment.ctx, 20);
        keep(kept.current, `${id}/${seq}`, { ...moment, ctx: null }, KEPT_MAX);
        show(moment);
      } catch (error) {
        if (!wasAborted(error)) setTold((old) => ({ ...old, id, error }));
      }
    };
    const timer = setTimeout(() => void ask(), kept.current.has(`${id}/${seq}`) ? 0 : REST_MS);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [id, seq]);

  const ours = told.id === id ? told : { moment: null, ctx: {}, error: undefined };
  return { ...ours, fresh: ours.moment?.fact.seq === seq };
}

/** Of the contexts that we have, the one that may still hold at this place. */
function newest(contexts: ReadonlyMap<string, Ctx>, id: string, seq: number): number | null {
  let found: number | null = null;
  for (const key of contexts.keys()) {
    const at = key.startsWith(`${id}/`) ? Number(key.slice(id.length + 1)) : Infinity;
    if (at <= seq && (found === null || at > found)) found = at;
  }
  return found;
}

function keep<T>(map: Map<string, T>, key: string, value: T, most: number): void {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > most && oldest !== undefined) map.delete(oldest);
}
