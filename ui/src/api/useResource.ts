/** Reads a resource of the API: its data, its error and whether it is loading. The latest request wins. */

import { useCallback, useEffect, useState } from "react";
import { wasAborted } from "./problem";

export interface Resource<T> {
  data: T | undefined;
  error: unknown;
  loading: boolean;
  reload: () => void;
}

interface ResourceState<T> {
  key: string | null;
  request: number; // number of the request that this is the response to
  data: T | undefined;
  error: unknown;
}

/** `key` identifies the resource: a new key loads again, null loads nothing. During a reload the old data stays. */
export function useResource<T>(key: string | null, read: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const [state, setState] = useState<ResourceState<T>>({ key: null, request: -1, data: undefined, error: undefined });
  const [request, setRequest] = useState(0);

  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    read(abort.signal).then(
      (data) => {
        if (!abort.signal.aborted) setState({ key, request, data, error: undefined });
      },
      (error: unknown) => {
        if (abort.signal.aborted || wasAborted(error)) return;
        setState((old) => ({ key, request, data: old.key === key ? old.data : undefined, error }));
      },
    );
    return () => abort.abort();
    // `read` is a new function on each render; `key` identifies what it reads.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key, request]);

  const reload = useCallback(() => setRequest((old) => old + 1), []);
  if (key === null || state.key !== key) return { data: undefined, error: undefined, loading: key !== null, reload };
  return { data: state.data, error: state.error, loading: state.request !== request, reload };
}
