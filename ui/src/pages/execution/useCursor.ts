/** The one cursor: the seq that everything on the page shows. Without one it is live, at the end of the log. */

import { useCallback, useEffect, useRef, useState } from "react";
import { changed, navigate, type Place } from "../../app/router";

const WRITE_MS = 250; // browsers allow few changes of the address in a second

export interface Cursor {
  seq: number; // within the log
  live: boolean; // it goes along with the end
  move: (seq: number | null) => void; // null: go live
}

export function useCursor(place: Place, last: number): Cursor {
  const given = Number(place.query.get("seq"));
  const written = Number.isInteger(given) && given > 0 ? given : null;
  const [state, setState] = useState({ written, at: written });
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const now = useRef(place);
  useEffect(() => {
    now.current = place;
  }, [place]);
  useEffect(() => () => clearTimeout(timer.current), []);

  // The address was changed by another hand: a link, or the browser's way back.
  if (state.written !== written) setState({ written, at: written });
  const at = state.written === written ? state.at : written;

  const move = useCallback((seq: number | null) => {
    setState((old) => ({ ...old, at: seq }));
    clearTimeout(timer.current);
    timer.current = setTimeout(() => navigate(changed(now.current, { seq }), { replace: true }), WRITE_MS);
  }, []);
  const live = at === null || last === 0;
  return { seq: live ? last : Math.min(at, last), live, move };
}
