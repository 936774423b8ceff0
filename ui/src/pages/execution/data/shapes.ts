/** Inspects values to choose how to show them. */

export interface Ref {
  type: string;
  meta: { content_type?: string; bytes?: number; unpacked_bytes?: number; sha256: string };
}

export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether the value is a reference to a result store. */
export function isRef(value: unknown): value is Ref {
  return isObject(value) && "locator" in value && isObject(value.meta) && typeof value.meta.sha256 === "string";
}

/** A reference to the results of a loop, which are in the log of its execution. */
export interface LoopRef {
  type: string;
  locator: { execution_id: string; run: string };
}

export function isLoopRef(value: unknown): value is LoopRef {
  return isObject(value) && isObject(value.locator) && typeof value.locator.execution_id === "string" && typeof value.locator.run === "string";
}

const COLUMNS_MAX = 24;

/** The columns of a list of objects that fits into a table; null: it does not. */
export function columnsOf(value: unknown): string[] | null {
  if (!Array.isArray(value) || value.length === 0 || !value.every(isObject)) return null;
  const columns = new Set<string>();
  for (const row of value.slice(0, 200)) for (const key of Object.keys(row)) columns.add(key);
  return columns.size > 0 && columns.size <= COLUMNS_MAX ? [...columns] : null;
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 ** 2) return `${(bytes / 1024).toFixed(1)} KB`;
  return `${(bytes / 1024 ** 2).toFixed(1)} MB`;
}

/** A value on one short line. `quoted`: a string is written as JSON. */
export function shorten(value: unknown, chars = 60, quoted = true): string {
  const text = value === undefined ? "" : typeof value === "string" && !quoted ? value : JSON.stringify(value);
  return text.length > chars ? `${text.slice(0, chars - 1)}…` : text;
}
