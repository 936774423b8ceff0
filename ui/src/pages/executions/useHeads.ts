import { useCallback, useEffect, useReducer, useRef } from "react";
import { get } from "../../api/client";
import { wasAborted } from "../../api/problem";
import { follow } from "../../api/stream";
import type { Head, HeadsPage } from "../../api/types";
import { type Filter, type Heads, joined, withNews } from "./heads";

const PAGE = 100;

interface Held {
  key: string;
  heads: Heads | null; // null: nothing was read yet
  error: unknown;
}

type News =
  | { kind: "first" | "more"; key: string; page: HeadsPage }
  | { kind: "changed"; heads: Head[]; filter: Filter }
  | { kind: "failed"; key: string; error: unknown };

function reduce(held: Held, news: News): Held {
  if (news.kind === "changed") {
    return held.heads === null ? held : { ...held, heads: withNews(held.heads, news.heads, news.filter) };
  }
  if (news.kind === "failed") {
    return { key: news.key, heads: held.key === news.key ? held.heads : null, error: news.error };
  }
  const before = news.kind === "more" && held.key === news.key ? held.heads : null;
  if (news.kind === "more" && before === null) return held; // of a filter that was left
  return { key: news.key, heads: joined(before ?? { items: [], next: null }, news.page), error: undefined };
}

/** The executions that fit a filter, as they are now, and how to read more of them. */
export function useHeads(filter: Filter) {
  const key = JSON.stringify(filter);
  const [held, tell] = useReducer(reduce, { key: "", heads: null, error: undefined });
  const reading = useRef<string | null>(null);

  const read = useCallback(
    async (before: string | null, signal?: AbortSignal) => {
      const wanted = JSON.parse(key) as Filter;
      const query = { ...wanted, open: wanted.open || null, before, limit: PAGE };
      try {
        const page = await get<HeadsPage>("/executions", query, signal);
        tell({ kind: before === null ? "first" : "more", key, page });
      } catch (error) {
        if (!wasAborted(error)) tell({ kind: "failed", key, error });
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
        // What happened while nobody listened is only in the list.
        if (connection === "live" && lost) void read(null, abort.signal);
        lost = connection === "lost" || (lost && connection !== "live");
      },
      onEvents: (events) => {
        const heads = events.filter((each) => each.event === "head").map((each) => JSON.parse(each.data) as Head);
        if (heads.length > 0) tell({ kind: "changed", heads, filter });
      },
    });
    return () => {
      abort.abort();
      stop();
    };
  }, [key, read]);

  const heads = held.key === key ? held.heads : null;
  const next = heads?.next ?? null;
  const more = useCallback(() => {
    if (next === null || reading.current === next) return;
    reading.current = next;
    void read(next).finally(() => {
      reading.current = null;
    });
  }, [next, read]);
  return { heads, error: held.key === key ? held.error : undefined, more, reload: () => void read(null) };
}
