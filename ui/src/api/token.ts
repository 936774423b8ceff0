/** The token that requests carry: in sessionStorage, so that it goes with the tab; never in a URL. */

const KEY = "noetl.token";
const listeners = new Set<() => void>();
let refusal: unknown; // why the last token was no good

export function heldToken(): string | null {
  return sessionStorage.getItem(KEY);
}

export function holdToken(token: string): void {
  refusal = undefined;
  sessionStorage.setItem(KEY, token);
  tell();
}

/** `why`: what the server said against it; nothing when its owner signs out. */
export function dropToken(why?: unknown): void {
  refusal = why;
  sessionStorage.removeItem(KEY);
  tell();
}

export function refusedBecause(): unknown {
  return refusal;
}

export function onTokenChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(): void {
  for (const listener of listeners) listener();
}
