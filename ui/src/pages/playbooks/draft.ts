/** What was typed and not saved outlives a reload, in this tab. */

const PREFIX = "noetl.draft ";

export function draftOf(name: string): string | null {
  return sessionStorage.getItem(PREFIX + name);
}

export function keepDraft(name: string, text: string): void {
  try {
    sessionStorage.setItem(PREFIX + name, text);
  } catch {
    // The store is full: then a reload costs what was typed, and nothing else is wrong.
  }
}

export function dropDraft(name: string): void {
  sessionStorage.removeItem(PREFIX + name);
}
