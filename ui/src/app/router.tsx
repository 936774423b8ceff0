/** A small router over the History API: paths below /ui, and filters in the query. */

import {
  type AnchorHTMLAttributes,
  type MouseEvent,
  type ReactNode,
  useCallback,
  useMemo,
  useSyncExternalStore,
} from "react";

const BASE = "/ui";
const CHANGED = "noetl:navigated";

function subscribe(listener: () => void): () => void {
  window.addEventListener("popstate", listener);
  window.addEventListener(CHANGED, listener);
  return () => {
    window.removeEventListener("popstate", listener);
    window.removeEventListener(CHANGED, listener);
  };
}

const here = (): string => window.location.pathname + window.location.search;

export interface Place {
  path: string; // below /ui, without a slash at its end
  query: URLSearchParams;
}

export function placeOf(href: string): Place {
  const url = new URL(href, window.location.origin);
  const below = url.pathname.startsWith(BASE) ? url.pathname.slice(BASE.length) : url.pathname;
  return { path: below.replace(/\/+$/, "") || "/", query: url.searchParams };
}

export function usePlace(): Place {
  const href = useSyncExternalStore(subscribe, here);
  return useMemo(() => placeOf(href), [href]);
}

/** `replace` writes no step into the browser's history: for filters and cursors. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const url = BASE + to;
  if (url === here()) return;
  if (replace) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
  window.dispatchEvent(new Event(CHANGED));
}

export type Changes = Record<string, string | number | null>;

/** The same place with other values in its query; null takes one out. */
export function changed(place: Place, changes: Changes): string {
  const query = new URLSearchParams(place.query);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(key);
    else query.set(key, String(value));
  }
  const text = query.toString();
  return text ? `${place.path}?${text}` : place.path;
}

/** One value of the query, and how to set it. */
export function useQuery(name: string): [string | null, (value: string | number | null) => void] {
  const place = usePlace();
  const set = useCallback(
    (value: string | number | null) => navigate(changed(place, { [name]: value }), { replace: true }),
    [place, name],
  );
  return [place.query.get(name), set];
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string; children: ReactNode };

export function Link({ to, children, onClick, ...rest }: LinkProps) {
  const go = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const other = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
    if (event.defaultPrevented || other) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a href={BASE + to} onClick={go} {...rest}>
      {children}
    </a>
  );
}

/** `/executions/:id` against a path: the values of its names, or null. */
export function matched(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const values: Record<string, string> = {};
  for (const [place, part] of wanted.entries()) {
    const found = given[place] ?? "";
    if (part.startsWith(":")) values[part.slice(1)] = decodeURIComponent(found);
    else if (part !== found) return null;
  }
  return values;
}
