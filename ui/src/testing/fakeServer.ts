/** A fake server for tests that serves a few documents. A request for any other document never completes. */

import { vi } from "vitest";

/** Returns the list of requested paths, in order. */
export function serveDocuments(documents: Record<string, unknown>): string[] {
  const requested: string[] = [];
  vi.stubGlobal("fetch", (url: string) => {
    requested.push(url);
    const known = documents[url];
    return known === undefined ? new Promise<never>(() => undefined) : Promise.resolve(new Response(JSON.stringify(known)));
  });
  return requested;
}
