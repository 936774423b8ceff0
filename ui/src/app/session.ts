/** The session: anyone on this machine, the holder of a token, or a person whom a provider has signed in. */

import { createContext, useContext } from "react";
import { request } from "../api/client";
import { errorMessage } from "../api/problem";
import { sessionChanged } from "../api/session";
import { toast } from "../design/toasts";

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

/** Exchanges an API token for a session. The page does not keep the token. Throws the refusal of the server. */
export async function signIn(token: string): Promise<void> {
  await request("/session", { body: { token }, signIn: true });
  sessionChanged();
}

/** Ends the session on the server. */
export async function signOut(): Promise<void> {
  try {
    await request("/session", { method: "DELETE", signIn: true });
    sessionChanged();
  } catch (error) {
    toast(errorMessage(error), "error");
  }
}
