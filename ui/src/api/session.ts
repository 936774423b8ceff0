/** Whether the browser is signed in: the session is in a cookie that scripts cannot read. */

const listeners = new Set<() => void>();
let changes = 0; // sign-ins, sign-outs and refusals so far
let refusal: unknown; // why the server ended the last session

/** A number that changes when the session may have changed. */
export function sessionVersion(): number {
  return changes;
}

/** `why`: the refusal of the server; undefined when the user signs in or out. */
export function sessionChanged(why?: unknown): void {
  refusal = why;
  changes += 1;
  for (const listener of listeners) listener();
}

export function sessionError(): unknown {
  return refusal;
}

export function onSessionChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
