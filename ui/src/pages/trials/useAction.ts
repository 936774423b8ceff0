import { useCallback, useEffect, useRef, useState } from "react";

interface Action<T> {
  data: T | undefined; // of the last request that succeeded
  error: unknown;
  busy: boolean;
  run: (request: () => Promise<T>) => void;
}

/** A request that a button sends. Only the last answer counts, and none after the page has gone. */
export function useAction<T>(): Action<T> {
  const [state, setState] = useState<Omit<Action<T>, "run">>({ data: undefined, error: undefined, busy: false });
  const last = useRef(0);
  useEffect(() => () => {
    last.current++;
  }, []);
  const run = useCallback((request: () => Promise<T>) => {
    const number = ++last.current;
    const settle = (found: Partial<Omit<Action<T>, "run">>) => {
      if (number === last.current) setState((old) => ({ ...old, ...found, busy: false }));
    };
    setState((old) => ({ ...old, error: undefined, busy: true }));
    request().then((data) => settle({ data }), (error: unknown) => settle({ error, data: undefined }));
  }, []);
  return { ...state, run };
}
