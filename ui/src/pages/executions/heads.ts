/** The list of executions, newest first, in any order of updates. */

import type { Head, HeadsPage } from "../../api/types";
import { isLive } from "../../api/commands";

export interface Filter {
  status: string | null;
  path: string | null;
  open: boolean;
}

export interface Heads {
  items: Head[];
  next: string | null; // `before` of the next page; null: all are loaded
}

export function matchesFilter(head: Head, filter: Filter): boolean {
  if (filter.status !== null && head.status !== filter.status) return false;
  if (filter.path !== null && head.path !== filter.path) return false;
  return !filter.open || isLive(head.status);
}

export function appendPage(heads: Heads, page: HeadsPage): Heads {
  const known = new Set(heads.items.map((head) => head.execution_id));
  const fresh = page.items.filter((head) => !known.has(head.execution_id));
  return { items: [...heads.items, ...fresh], next: page.next ?? null };
}

/** Applies updates: removes rows that no longer match the filter, and adds new ones. */
export function applyUpdates(heads: Heads, updates: readonly Head[], filter: Filter): Heads {
  const fresh = new Map(updates.map((head) => [head.execution_id, head]));
  const items: Head[] = [];
  for (const head of heads.items) {
    const update = fresh.get(head.execution_id);
    fresh.delete(head.execution_id);
    const now = update !== undefined && update.seq >= head.seq ? update : head;
    if (matchesFilter(now, filter)) items.push(now);
  }
  // An execution older than the last row belongs to a page that is not loaded yet.
  const last = heads.next === null ? null : heads.items.at(-1);
  const added = [...fresh.values()].filter(
    (head) => matchesFilter(head, filter) && (last == null || head.started_at >= last.started_at),
  );
  if (added.length === 0) return { items, next: heads.next };
  const all = [...added, ...items].sort((one, other) => other.started_at.localeCompare(one.started_at));
  return { items: all, next: heads.next };
}
