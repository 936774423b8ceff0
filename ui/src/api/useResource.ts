/** What a page reads of the API: the data, the error, whether it is still coming; the latest wish wins. */

import { useCallback, useEffect, useState } from "react";
import { wasAborted } from "./problem";

export interface Resource<T> {
  data: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
}

interface Held<T> {
  key: string | null;
  turn: number; // which reading this is the answer of
  data: T | undefined;
  error: unknown;
}

/** `key` says what is read: another key reads anew, and null reads nothing. While the same is read anew, what
 * was read before stays. */
export function useResource<T>(key: string | null, read: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const [held, setHeld] = useState<Held<T>>({ key: null, turn: -1, data: undefined, error: undefined });
  const [turn, setTurn] = useState(0);

  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    read(abort.signal).then(
      (data) => {
        if (!abort.signal.aborted) setHeld({ key, turn, data, error: undefined });
      },
      (error: unknown) => {
        if (abort.signal.aborted || wasAborted(error)) return;
        setHeld((old) => ({ key, turn, data: old.key === key ? old.data : undefined, error }));
      },
    );
    return () => abort.abort();
    // `read` is made anew with every drawing; what it reads is said by the key.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key, turn]);

  const reload = useCallback(() => setTurn((old) => old + 1), []);
  if (key === null || held.key !== key) return { data: undefined, error: undefined, loading: key !== null, reload };
  return { data: held.data, error: held.error, loading: held.turn !== turn, reload };
}
