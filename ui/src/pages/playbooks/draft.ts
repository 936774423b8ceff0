/** Unsaved text, kept in this tab across a reload. */

const PREFIX = "noetl.draft ";

export function loadDraft(name: string): string | null {
  return sessionStorage.getItem(PREFIX + name);
}

export function saveDraft(name: string, text: string): void {
  try {
    sessionStorage.setItem(PREFIX + name, text);
  } catch {
    // The storage is full: a reload loses the draft.
  }
}

export function deleteDraft(name: string): void {
  sessionStorage.removeItem(PREFIX + name);
}
