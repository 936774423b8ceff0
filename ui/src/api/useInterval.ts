/** Calls a function periodically while the browser tab is visible. */

import { useEffect } from "react";

export function useInterval(milliseconds: number, callback: () => void): void {
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) callback();
    }, milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, callback]);
}
