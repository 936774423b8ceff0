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

let restored = false; // Back or Forward has opened the current page

window.addEventListener("popstate", () => {
  restored = true;
});

/** Whether Back or Forward has opened the current page: it then shows what it showed before. */
export const wasRestored = (): boolean => restored;

const here = (): string => window.location.pathname + window.location.search;

export interface RouteLocation {
  path: string; // below /ui, without a trailing slash
  query: URLSearchParams;
}

export function parseLocation(href: string): RouteLocation {
  const url = new URL(href, window.location.origin);
  const below = url.pathname.startsWith(BASE) ? url.pathname.slice(BASE.length) : url.pathname;
  return { path: below.replace(/\/+$/, "") || "/", query: url.searchParams };
}

export function useRouteLocation(): RouteLocation {
  const href = useSyncExternalStore(subscribe, here);
  return useMemo(() => parseLocation(href), [href]);
}

/** `replace` adds no entry to the browser history: for filters and cursors. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const url = BASE + to;
  if (url === here()) return;
  restored = false;
  if (replace) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
  window.dispatchEvent(new Event(CHANGED));
}

export type QueryChanges = Record<string, string | number | null>;

/** The same location with changed query parameters; null removes one. */
export function withQuery(location: RouteLocation, changes: QueryChanges): string {
  const query = new URLSearchParams(location.query);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(key);
    else query.set(key, String(value));
  }
  const text = query.toString();
  return text ? `${location.path}?${text}` : location.path;
}

/** A query parameter and its setter. */
export function useQueryParam(name: string): [string | null, (value: string | number | null) => void] {
  const location = useRouteLocation();
  const set = useCallback(
    (value: string | number | null) => navigate(withQuery(location, { [name]: value }), { replace: true }),
    [location, name],
  );
  return [location.query.get(name), set];
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

/** Matches a path against a pattern such as `/executions/:id`. Returns the parameters, or null. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const names = pattern.split("/");
  const parts = path.split("/");
  if (names.length !== parts.length) return null;
  const values: Record<string, string> = {};
  for (const [index, part] of names.entries()) {
    const found = parts[index] ?? "";
    if (part.startsWith(":")) values[part.slice(1)] = decodeURIComponent(found);
    else if (part !== found) return null;
  }
  return values;
}
