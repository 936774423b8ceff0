/** The cursor: the fact that all parts of the page show. Without a position it follows the end of the log. */

import { useCallback, useEffect, useRef, useState } from "react";
import { withQuery, navigate, type RouteLocation } from "../../app/router";

const WRITE_MS = 250; // browsers limit how often the URL may change

export interface Cursor {
  seq: number; // within the log
  live: boolean; // it follows the end of the log
  move: (seq: number | null) => void; // null: follow the end
}

export function useCursor(location: RouteLocation, last: number): Cursor {
  const value = Number(location.query.get("seq"));
  const fromUrl = Number.isInteger(value) && value > 0 ? value : null;
  const [state, setState] = useState({ fromUrl, at: fromUrl });
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const now = useRef(location);
  useEffect(() => {
    now.current = location;
  }, [location]);
  useEffect(() => () => clearTimeout(timer.current), []);

  // Something else has changed the URL: a link, or the Back button.
  if (state.fromUrl !== fromUrl) setState({ fromUrl, at: fromUrl });
  const at = state.fromUrl === fromUrl ? state.at : fromUrl;

  const move = useCallback((seq: number | null) => {
    setState((old) => ({ ...old, at: seq }));
    clearTimeout(timer.current);
    timer.current = setTimeout(() => navigate(withQuery(now.current, { seq }), { replace: true }), WRITE_MS);
  }, []);
  const live = at === null || last === 0;
  return { seq: live ? last : Math.min(at, last), live, move };
}
