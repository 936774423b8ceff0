import { useSyncExternalStore } from "react";

/** Whether the screen matches a media query. */
export function useMediaQuery(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const list = window.matchMedia(query);
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    () => window.matchMedia(query).matches,
  );
}

export const useIsNarrow = (): boolean => useMediaQuery("(max-width: 800px)");
