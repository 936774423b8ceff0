/** The list of executions, newest first, in any order of updates. */

import type { Head, HeadsPage } from "../../api/types";
import { isInterrupted, isLive } from "../../api/commands";

export interface Filter {
  status: string | null;
  path: string | null;
  version: string | null; // of the path
  label: string | null; // "key=value"
  open: boolean;
  waiting: boolean; // for a person
  search: string | null; // part of the path, the error or a label; the beginning or the end of the id
  since: string | null; // "24h", or an instant
  until: string | null; // an instant
}

export const NO_FILTER: Filter = {
  status: null, path: null, version: null, label: null, open: false, waiting: false, search: null, since: null, until: null,
};

export interface Heads {
  items: Head[];
  next: string | null; // `before` of the next page; null: all are loaded
  total: number | null; // on all pages; null: unknown
}

export function filterOf(query: URLSearchParams): Filter {
  const filter = { ...NO_FILTER, open: query.get("open") === "true", waiting: query.get("waiting") === "true" };
  for (const key of ["status", "path", "version", "label", "search", "since", "until"] as const) filter[key] = query.get(key);
  return filter;
}

export const isFiltered = (filter: Filter): boolean => Object.values(filter).some((value) => value !== null && value !== false);

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** The instant that `since` or `until` means: so long ago, or the time itself. Null: it is neither. */
export function instantOf(text: string | null, now: number = Date.now()): string | null {
  if (text === null) return null;
  const [, count = "", unit = ""] = /^(\d{1,4})([mhdw])$/.exec(text) ?? [];
  const at = new Date(count === "" ? text : now - Number(count) * (UNITS[unit] ?? 0));
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}

/** The parameters of the request for a page of the list. */
export function queryOf(filter: Filter) {
  return {
    ...filter,
    status: filter.status === "interrupted" ? null : filter.status,
    open: filter.open || filter.status === "interrupted" || null,
    waiting: filter.waiting || null,
    version: filter.path === null ? null : filter.version,
    since: instantOf(filter.since),
    until: instantOf(filter.until),
  };
}

function matchesSearch(head: Head, search: string): boolean {
  const wanted = search.trim().toLowerCase();
  const texts = [head.path, head.error ?? "", ...Object.entries(head.labels ?? {}).map(([key, value]) => `${key}=${value}`)];
  return head.execution_id.startsWith(wanted) || head.execution_id.endsWith(wanted) || texts.some((text) => text.toLowerCase().includes(wanted));
}

export function matchesFilter(head: Head, filter: Filter): boolean {
  if (filter.status === "interrupted" && !isInterrupted(head)) return false;
  if (filter.status !== null && filter.status !== "interrupted" && head.status !== filter.status) return false;
  if (filter.path !== null && head.path !== filter.path) return false;
  if (filter.label !== null && !Object.entries(head.labels ?? {}).some(([key, value]) => `${key}=${value}` === filter.label)) return false;
  if (filter.waiting && (head.waits ?? []).length === 0) return false;
  if (filter.search !== null && !matchesSearch(head, filter.search)) return false;
  const since = instantOf(filter.since);
  const until = instantOf(filter.until);
  if (since !== null && Date.parse(head.started_at) < Date.parse(since)) return false;
  if (until !== null && Date.parse(head.started_at) >= Date.parse(until)) return false;
  return !filter.open || isLive(head.status);
}

export function appendPage(heads: Heads, page: HeadsPage, filter: Filter): Heads {
  const known = new Set(heads.items.map((head) => head.execution_id));
  const fresh = page.items.filter((head) => !known.has(head.execution_id) && matchesFilter(head, filter));
  return { items: [...heads.items, ...fresh], next: page.next ?? null, total: page.total ?? heads.total };
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
  const removed = heads.items.length - items.length;
  // An execution older than the last row belongs to a page that is not loaded yet. Which version a new one
  // runs is not known here.
  const last = heads.next === null ? null : heads.items.at(-1);
  const added = [...fresh.values()].filter(
    (head) => filter.version === null && matchesFilter(head, filter) && (last == null || head.started_at >= last.started_at),
  );
  const total = heads.total === null ? null : heads.total + added.length - removed;
  if (added.length === 0) return { items, next: heads.next, total };
  const all = [...added, ...items].sort((one, other) => other.started_at.localeCompare(one.started_at));
  return { items: all, next: heads.next, total };
}
