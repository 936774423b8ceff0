import { useSyncExternalStore } from "react";

/** Does the screen fit a media query now? */
export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const list = window.matchMedia(query);
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    () => window.matchMedia(query).matches,
  );
}

export const useIsNarrow = (): boolean => useMedia("(max-width: 800px)");
