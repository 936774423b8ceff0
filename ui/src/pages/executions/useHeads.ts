import { useCallback, useEffect, useReducer, useRef, useState } from "react";
import { get } from "../../api/client";
import { wasAborted } from "../../api/problem";
import { follow } from "../../api/stream";
import type { Head, HeadsPage } from "../../api/types";
import { wasRestored } from "../../app/router";
import { type Filter, type Heads, appendPage, applyUpdates, queryOf } from "./heads";

const PAGE = 100;

interface State {
  key: string;
  heads: Heads | null; // null: not loaded yet
  error: unknown;
}

type Action =
  | { kind: "first" | "more" | "newest"; key: string; page: HeadsPage; filter: Filter }
  | { kind: "changed"; heads: Head[]; filter: Filter }
  | { kind: "removed"; ids: ReadonlySet<string> }
  | { kind: "failed"; key: string; error: unknown };

function reduce(state: State, action: Action): State {
  if (action.kind === "changed") {
    return state.heads === null ? state : { ...state, heads: applyUpdates(state.heads, action.heads, action.filter) };
  }
  if (action.kind === "removed") {
    if (state.heads === null) return state;
    const items = state.heads.items.filter((head) => !action.ids.has(head.execution_id));
    const total = state.heads.total === null ? null : state.heads.total - (state.heads.items.length - items.length);
    return { ...state, heads: { ...state.heads, items, total } };
  }
  if (action.kind === "failed") {
    return { key: action.key, heads: state.key === action.key ? state.heads : null, error: action.error };
  }
  const { key, page, filter } = action;
  const before = state.key === key ? state.heads : null;
  if (action.kind === "newest" && before !== null) {
    return { key, heads: { ...applyUpdates(before, page.items, filter), total: page.total ?? before.total }, error: undefined };
  }
  if (action.kind === "more" && before === null) return state; // for a previous filter
  const rest = action.kind === "more" && before !== null ? before : { items: [], next: null, total: null };
  return { key, heads: appendPage(rest, page, filter), error: undefined };
}

// The list that was left last: Back shows it again, at the same place.
let left: { key: string; heads: Heads | null; top: number } | null = null;

function keepTop(top: number): void {
  if (left !== null) left.top = top;
}

/** The executions that match a filter, kept up to date, and a function that loads more. */
export function useHeads(filter: Filter) {
  const key = JSON.stringify(filter);
  const [kept] = useState(() => (wasRestored() && left?.key === key ? left : null));
  const [state, dispatch] = useReducer(reduce, { key: kept?.key ?? "", heads: kept?.heads ?? null, error: undefined });
  const [staleSince, setStaleSince] = useState<number | null>(null); // null: the list is up to date
  const reading = useRef<string | null>(null);

  const read = useCallback(
    async (kind: "first" | "newest" | "more", before: string | null = null, signal?: AbortSignal) => {
      const wanted = JSON.parse(key) as Filter;
      const query = { ...queryOf(wanted), before, limit: PAGE, total: before === null && wanted.status !== "interrupted" ? true : null };
      try {
        const page = await get<HeadsPage>("/executions", query, signal);
        dispatch({ kind, key, page, filter: wanted });
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
    void read(kept?.key === key ? "newest" : "first", null, abort.signal);
    const stop = follow({
      path: "/stream",
      onConnection: (connection) => {
        // Load the list again: events during the lost connection are missing.
        if (connection === "live" && lost) void read("first", null, abort.signal);
        if (connection === "live") setStaleSince(null);
        else if (connection !== "connecting") setStaleSince((since) => since ?? Date.now());
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
  }, [key, read, kept]);

  const heads = state.key === key ? state.heads : null;
  useEffect(() => {
    left = { key, heads, top: left?.key === key ? left.top : 0 };
  }, [key, heads]);
  const next = heads?.next ?? null;
  const loadMore = useCallback(() => {
    if (next === null || reading.current === next) return;
    reading.current = next;
    void read("more", next).finally(() => {
      reading.current = null;
    });
  }, [next, read]);
  return {
    heads,
    error: state.key === key ? state.error : undefined,
    loadMore,
    reload: () => void read("first"),
    removed: (ids: ReadonlySet<string>) => dispatch({ kind: "removed", ids }),
    staleSince,
    initialTop: kept?.key === key ? kept.top : 0,
    onTop: keepTop,
  };
}
