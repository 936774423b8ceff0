/** Short words about what was just done, for any part of the page to say. */

export interface Toast {
  id: number;
  tone: "ok" | "error";
  words: string;
}

const SHOWN_MS = { ok: 4000, error: 10_000 };
const listeners = new Set<() => void>();
let toasts: readonly Toast[] = [];
let last = 0;

export function toast(words: string, tone: Toast["tone"] = "ok"): void {
  last += 1;
  const id = last;
  toasts = [...toasts.slice(-3), { id, tone, words }];
  tell();
  setTimeout(() => dismiss(id), SHOWN_MS[tone]);
}

export function dismiss(id: number): void {
  toasts = toasts.filter((each) => each.id !== id);
  tell();
}

export const toastsNow = (): readonly Toast[] => toasts;

export function onToasts(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(): void {
  for (const listener of listeners) listener();
}
