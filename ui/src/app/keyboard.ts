/** Keyboard shortcuts of a page: one key, or two in sequence (`g e`). They are off while the user types in a field. */

import { useEffect } from "react";

export type Shortcuts = Record<string, () => void>;

const SEQUENCE_MS = 900;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("input, textarea, select, [role=slider], dialog, dialog *");
}

/** The space key activates the focused button. */
function activatesFocused(event: KeyboardEvent): boolean {
  return event.key === " " && event.target instanceof Element && event.target.matches("button, summary, [role=button]");
}

export function useShortcuts(shortcuts: Shortcuts): void {
  useEffect(() => {
    let first = "";
    let at = 0;
    const listen = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || activatesFocused(event)) return;
      const both = `${first} ${event.key}`;
      const pair = event.timeStamp - at < SEQUENCE_MS ? shortcuts[both] : undefined;
      const found = pair ?? shortcuts[event.key];
      first = event.key;
      at = event.timeStamp;
      if (found === undefined) return;
      event.preventDefault();
      found();
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, [shortcuts]);
}
