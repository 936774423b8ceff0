/** Does something again and again while the page is in sight. */

import { useEffect } from "react";

export function useEvery(milliseconds: number, act: () => void): void {
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) act();
    }, milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, act]);
}
