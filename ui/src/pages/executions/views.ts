/** Named filters of the list. They are kept in this browser. */

import { useSyncExternalStore } from "react";

export interface SavedView {
  name: string;
  query: string; // "status=error&since=24h"
}

const KEY = "noetl.views";
const VIEWS_MAX = 20;
const NAME_CHARS_MAX = 40;
const listeners = new Set<() => void>();

function isView(value: unknown): value is SavedView {
  const { name, query } = (value ?? {}) as Partial<SavedView>;
  return typeof name === "string" && typeof query === "string";
}

function read(): readonly SavedView[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(kept)) return [];
    return kept.filter(isView).slice(0, VIEWS_MAX);
  } catch {
    return []; // something else has written there
  }
}

let current = read();

function write(views: readonly SavedView[]): void {
  current = views;
  localStorage.setItem(KEY, JSON.stringify(views));
  for (const listener of listeners) listener();
}

/** Keeps the filter under a name; the same name replaces it. Returns why it is not kept, or null. */
export function saveView(name: string, query: string): string | null {
  const wanted = name.trim();
  if (wanted === "" || wanted.length > NAME_CHARS_MAX) return `A name has 1 to ${String(NAME_CHARS_MAX)} characters.`;
  const others = current.filter((view) => view.name !== wanted);
  if (others.length >= VIEWS_MAX) return `At most ${String(VIEWS_MAX)} views are kept. Remove one first.`;
  write([...others, { name: wanted, query }]);
  return null;
}

export const removeView = (name: string): void => write(current.filter((view) => view.name !== name));

export function useViews(): readonly SavedView[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
