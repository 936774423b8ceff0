/** The session: anyone on this machine, or the holder of a token. */

import { createContext, useContext } from "react";

export interface Session {
  name: string;
  scopes: string[];
  open: boolean;
}

export const SessionContext = createContext<Session>({ name: "", scopes: [], open: false });

export function useSession(): Session {
  return useContext(SessionContext);
}

/** Whether the session has a scope: `read`, `run`, `write` or `admin`. */
export function useHasScope(scope: string): boolean {
  const { open, scopes } = useSession();
  // Every scope includes `read`, and `admin` includes all scopes.
  return open || scopes.includes(scope) || scopes.includes("admin") || (scope === "read" && scopes.length > 0);
}
