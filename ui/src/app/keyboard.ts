/** Keys for the whole page: one key, or two after each other (`g e`). Fields keep their own keys. */

import { useEffect } from "react";

export type Keys = Record<string, () => void>;

const TOGETHER_MS = 900;

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("input, textarea, select, [role=slider], dialog, dialog *");
}

/** Space presses whatever has the focus. */
function isPressing(event: KeyboardEvent): boolean {
  return event.key === " " && event.target instanceof Element && event.target.matches("button, summary, [role=button]");
}

export function useKeys(keys: Keys): void {
  useEffect(() => {
    let first = "";
    let at = 0;
    const listen = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || isPressing(event)) return;
      const both = `${first} ${event.key}`;
      const pair = event.timeStamp - at < TOGETHER_MS ? keys[both] : undefined;
      const found = pair ?? keys[event.key];
      first = event.key;
      at = event.timeStamp;
      if (found === undefined) return;
      event.preventDefault();
      found();
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, [keys]);
}
