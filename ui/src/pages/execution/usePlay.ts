/** Plays an execution: moves the cursor through the whole log in about twelve seconds. */

import { useCallback, useEffect, useRef, useState } from "react";
import type { Cursor } from "./useCursor";

const WHOLE_S = 12;
const FACTS_PER_S_MIN = 3;

export function usePlay(cursor: Cursor, last: number): { playing: boolean; toggle: () => void } {
  const [playing, setPlaying] = useState(false);
  const now = useRef({ cursor, last });
  useEffect(() => {
    now.current = { cursor, last };
  }, [cursor, last]);

  useEffect(() => {
    if (!playing) return;
    let place = now.current.cursor.seq;
    let before: number | null = null;
    let frame = requestAnimationFrame(function step(time) {
      const { cursor: held, last: end } = now.current;
      const passed = before === null ? 0 : (time - before) / 1000;
      before = time;
      place += passed * Math.max(FACTS_PER_S_MIN, end / WHOLE_S);
      if (place >= end) {
        held.move(null);
        setPlaying(false);
        return;
      }
      if (Math.floor(place) !== held.seq) held.move(Math.floor(place));
      frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [playing]);

  const toggle = useCallback(() => {
    const { cursor: held, last: end } = now.current;
    if (held.seq >= end) held.move(1); // At the end, start again from the beginning.
    setPlaying((old) => !old);
  }, []);
  return { playing, toggle };
}
