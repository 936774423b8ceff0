/** Who asked for the executions in sight, and how their steps stand: read for what is in sight only. */

import { useCallback, useRef, useState } from "react";
import { get } from "../../api/client";
import type { Glance, Head } from "../../api/types";

const AT_ONCE = 40;
const SETTLE_MS = 80;

interface Seen {
  seq: number;
  glance: Glance | null; // null: it is being read
}

export function useGlances() {
  const seen = useRef(new Map<string, Seen>());
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [glances, setGlances] = useState<ReadonlyMap<string, Glance>>(new Map());

  const read = useCallback(async (heads: Head[]) => {
    const ids = heads.map((head) => head.execution_id);
    for (const head of heads) seen.current.set(head.execution_id, { seq: head.seq, glance: null });
    try {
      const { items } = await get<{ items: Glance[] }>("/executions/glances", { ids: ids.join(",") });
      setGlances((old) => new Map([...old, ...items.map((item) => [item.execution_id, item] as const)]));
    } catch {
      for (const id of ids) seen.current.delete(id); // It is only a glance: the row stands without it.
    }
  }, []);

  const look = useCallback(
    (heads: Head[]) => {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => {
        const wanted = heads.filter((head) => seen.current.get(head.execution_id)?.seq !== head.seq);
        if (wanted.length > 0) void read(wanted.slice(0, AT_ONCE));
      }, SETTLE_MS);
    },
    [read],
  );
  return { glances, look };
}
