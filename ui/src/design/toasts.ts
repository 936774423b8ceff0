/** Short messages about the last action. Any part of the page can add one. */

export interface Toast {
  id: number;
  tone: "ok" | "error";
  text: string;
}

const SHOWN_MS = { ok: 4000, error: 10_000 };
const listeners = new Set<() => void>();
let toasts: readonly Toast[] = [];
let last = 0;

export function toast(text: string, tone: Toast["tone"] = "ok"): void {
  last += 1;
  const id = last;
  toasts = [...toasts.slice(-3), { id, tone, text }];
  notify();
  setTimeout(() => dismiss(id), SHOWN_MS[tone]);
}

export function dismiss(id: number): void {
  toasts = toasts.filter((each) => each.id !== id);
  notify();
}

export const toastsNow = (): readonly Toast[] => toasts;

export function onToasts(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function notify(): void {
  for (const listener of listeners) listener();
}
