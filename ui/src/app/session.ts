/** Who asks: everyone on this machine, or the holder of a token. */

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

/** May the one who asks do this? `read`, `run`, `write` or `admin`. */
export function useMay(scope: string): boolean {
  const { open, scopes } = useSession();
  // Every other scope holds `read`, and `admin` holds all of them.
  return open || scopes.includes(scope) || scopes.includes("admin") || (scope === "read" && scopes.length > 0);
}
