/** The token for requests: in sessionStorage, which ends with the tab; never in a URL. */

const KEY = "noetl.token";
const listeners = new Set<() => void>();
let refusal: unknown; // why the server refused the last token

export function getToken(): string | null {
  return sessionStorage.getItem(KEY);
}

export function storeToken(token: string): void {
  refusal = undefined;
  sessionStorage.setItem(KEY, token);
  notify();
}

/** `why`: the refusal of the server; undefined when the user signs out. */
export function clearToken(why?: unknown): void {
  refusal = why;
  sessionStorage.removeItem(KEY);
  notify();
}

export function tokenError(): unknown {
  return refusal;
}

export function onTokenChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function notify(): void {
  for (const listener of listeners) listener();
}
