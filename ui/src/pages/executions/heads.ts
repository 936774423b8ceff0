/** The list of executions as a page holds it: newest first, whatever order the news come in. */

import type { Head, HeadsPage } from "../../api/types";
import { isLive } from "../../api/commands";

export interface Filter {
  status: string | null;
  path: string | null;
  open: boolean;
}

export interface Heads {
  items: Head[];
  next: string | null; // `before` of the next page; null: all are here
}

export function fits(head: Head, filter: Filter): boolean {
  if (filter.status !== null && head.status !== filter.status) return false;
  if (filter.path !== null && head.path !== filter.path) return false;
  return !filter.open || isLive(head.status);
}

export function joined(heads: Heads, page: HeadsPage): Heads {
  const known = new Set(heads.items.map((head) => head.execution_id));
  const fresh = page.items.filter((head) => !known.has(head.execution_id));
  return { items: [...heads.items, ...fresh], next: page.next ?? null };
}

/** With news of some of them. What does not fit any more leaves; what is new and in sight comes in. */
export function withNews(heads: Heads, news: readonly Head[], filter: Filter): Heads {
  const fresh = new Map(news.map((head) => [head.execution_id, head]));
  const items: Head[] = [];
  for (const head of heads.items) {
    const told = fresh.get(head.execution_id);
    fresh.delete(head.execution_id);
    const now = told !== undefined && told.seq >= head.seq ? told : head;
    if (fits(now, filter)) items.push(now);
  }
  // What is older than the last one here belongs to a page that was not read yet.
  const last = heads.next === null ? null : heads.items.at(-1);
  const added = [...fresh.values()].filter(
    (head) => fits(head, filter) && (last == null || head.started_at >= last.started_at),
  );
  if (added.length === 0) return { items, next: heads.next };
  const all = [...added, ...items].sort((one, other) => other.started_at.localeCompare(one.started_at));
  return { items: all, next: heads.next };
}
