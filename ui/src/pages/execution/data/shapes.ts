/** What a value looks like, to be shown in the way that fits it. */

export interface Ref {
  type: string;
  meta: { content_type?: string; bytes?: number; unpacked_bytes?: number; sha256: string };
}

export type Mapping = Record<string, unknown>;

export function isMapping(value: unknown): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value that lies in the result store. */
export function isRef(value: unknown): value is Ref {
  return isMapping(value) && "locator" in value && isMapping(value.meta) && typeof value.meta.sha256 === "string";
}

const COLUMNS_MAX = 24;

/** The columns of a list of mappings that is best read as a table; null: it is not. */
export function columnsOf(value: unknown): string[] | null {
  if (!Array.isArray(value) || value.length === 0 || !value.every(isMapping)) return null;
  const columns = new Set<string>();
  for (const row of value.slice(0, 200)) for (const key of Object.keys(row)) columns.add(key);
  return columns.size > 0 && columns.size <= COLUMNS_MAX ? [...columns] : null;
}

export function sizeInWords(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 ** 2) return `${(bytes / 1024).toFixed(1)} KB`;
  return `${(bytes / 1024 ** 2).toFixed(1)} MB`;
}

/** A value in one short line. */
export function brief(value: unknown, chars = 60): string {
  const text = value === undefined ? "" : JSON.stringify(value);
  return text.length > chars ? `${text.slice(0, chars - 1)}…` : text;
}
