/** The selected executions of the list: single ones, a range, or all that match the filter. */

import { useCallback, useMemo, useState } from "react";
import type { Head } from "../../api/types";

interface Chosen {
  key: string; // of the filter: another filter has another selection
  ids: ReadonlySet<string>;
  anchor: string | null; // where a range begins
  all: boolean; // also those that are not loaded
}

const NONE: Omit<Chosen, "key"> = { ids: new Set(), anchor: null, all: false };

/** The ids between two rows, in the order of the list. */
export function rangeOf(heads: readonly Head[], one: string, other: string): string[] {
  const places = [one, other].map((id) => heads.findIndex((head) => head.execution_id === id));
  if (places.includes(-1)) return [other];
  return heads.slice(Math.min(...places), Math.max(...places) + 1).map((head) => head.execution_id);
}

export function useSelection(key: string, heads: readonly Head[]) {
  const [chosen, setChosen] = useState<Chosen>({ key, ...NONE });
  const current = chosen.key === key ? chosen : { key, ...NONE };
  const toggle = useCallback(
    (id: string, toRange: boolean) =>
      setChosen((before) => {
        const known = before.key === key ? before : { key, ...NONE };
        const ids = new Set(known.all ? heads.map((head) => head.execution_id) : known.ids);
        const changed = toRange && known.anchor !== null ? rangeOf(heads, known.anchor, id) : [id];
        const isAdded = !ids.has(id);
        for (const each of changed) {
          if (isAdded) ids.add(each);
          else ids.delete(each);
        }
        return { key, ids, anchor: id, all: false };
      }),
    [key, heads],
  );
  const setAll = useCallback(
    (all: boolean) => setChosen({ key, ids: new Set(heads.map((head) => head.execution_id)), anchor: null, all }),
    [key, heads],
  );
  const clear = useCallback(() => setChosen({ key, ...NONE }), [key]);
  const loaded = useMemo(() => heads.filter((head) => current.ids.has(head.execution_id)), [heads, current.ids]);
  return { ids: current.ids, all: current.all, count: loaded.length, has: (id: string) => current.all || current.ids.has(id), toggle, setAll, clear };
}

export type Selection = ReturnType<typeof useSelection>;
