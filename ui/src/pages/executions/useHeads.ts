import { useCallback, useEffect, useReducer, useRef } from "react";
import { get } from "../../api/client";
import { wasAborted } from "../../api/problem";
import { follow } from "../../api/stream";
import type { Head, HeadsPage } from "../../api/types";
import { type Filter, type Heads, appendPage, applyUpdates } from "./heads";

const PAGE = 100;

interface State {
  key: string;
  heads: Heads | null; // null: not loaded yet
  error: unknown;
}

type Action =
  | { kind: "first" | "more"; key: string; page: HeadsPage }
  | { kind: "changed"; heads: Head[]; filter: Filter }
  | { kind: "failed"; key: string; error: unknown };

function reduce(state: State, action: Action): State {
  if (action.kind === "changed") {
    return state.heads === null ? state : { ...state, heads: applyUpdates(state.heads, action.heads, action.filter) };
  }
  if (action.kind === "failed") {
    return { key: action.key, heads: state.key === action.key ? state.heads : null, error: action.error };
  }
  const before = action.kind === "more" && state.key === action.key ? state.heads : null;
  if (action.kind === "more" && before === null) return state; // for a previous filter
  return { key: action.key, heads: appendPage(before ?? { items: [], next: null }, action.page), error: undefined };
}

/** The executions that match a filter, kept up to date, and a function that loads more. */
export function useHeads(filter: Filter) {
  const key = JSON.stringify(filter);
  const [state, dispatch] = useReducer(reduce, { key: "", heads: null, error: undefined });
  const reading = useRef<string | null>(null);

  const read = useCallback(
    async (before: string | null, signal?: AbortSignal) => {
      const wanted = JSON.parse(key) as Filter;
      const query = { ...wanted, open: wanted.open || null, before, limit: PAGE };
      try {
        const page = await get<HeadsPage>("/executions", query, signal);
        dispatch({ kind: before === null ? "first" : "more", key, page });
      } catch (error) {
        if (!wasAborted(error)) dispatch({ kind: "failed", key, error });
      }
    },
    [key],
  );

  useEffect(() => {
    const abort = new AbortController();
    const filter = JSON.parse(key) as Filter;
    let lost = false;
    void read(null, abort.signal);
    const stop = follow({
      path: "/stream",
      onConnection: (connection) => {
        // Load the list again: events during the lost connection are missing.
        if (connection === "live" && lost) void read(null, abort.signal);
        lost = connection === "lost" || (lost && connection !== "live");
      },
      onEvents: (events) => {
        const heads = events.filter((each) => each.event === "head").map((each) => JSON.parse(each.data) as Head);
        if (heads.length > 0) dispatch({ kind: "changed", heads, filter });
      },
    });
    return () => {
      abort.abort();
      stop();
    };
  }, [key, read]);

  const heads = state.key === key ? state.heads : null;
  const next = heads?.next ?? null;
  const loadMore = useCallback(() => {
    if (next === null || reading.current === next) return;
    reading.current = next;
    void read(next).finally(() => {
      reading.current = null;
    });
  }, [next, read]);
  return { heads, error: state.key === key ? state.error : undefined, loadMore, reload: () => void read(null) };
}
