/** Loads who started the visible executions, and the state of their steps. */

import { useCallback, useRef, useState } from "react";
import { get } from "../../api/client";
import type { Glance, Head } from "../../api/types";

const BATCH_MAX = 40;
const DEBOUNCE_MS = 80;

interface Requested {
  seq: number;
  glance: Glance | null; // null: loading
}

export function useGlances() {
  const requested = useRef(new Map<string, Requested>());
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [glances, setGlances] = useState<ReadonlyMap<string, Glance>>(new Map());

  const read = useCallback(async (heads: Head[]) => {
    const ids = heads.map((head) => head.execution_id);
    for (const head of heads) requested.current.set(head.execution_id, { seq: head.seq, glance: null });
    try {
      const { items } = await get<{ items: Glance[] }>("/executions/glances", { ids: ids.join(",") });
      setGlances((old) => new Map([...old, ...items.map((item) => [item.execution_id, item] as const)]));
    } catch {
      for (const id of ids) requested.current.delete(id); // The row works without it.
    }
  }, []);

  const load = useCallback(
    (heads: Head[]) => {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        const wanted = heads.filter((head) => requested.current.get(head.execution_id)?.seq !== head.seq);
        if (wanted.length > 0) void read(wanted.slice(0, BATCH_MAX));
      }, DEBOUNCE_MS);
    },
    [read],
  );
  return { glances, load };
}
