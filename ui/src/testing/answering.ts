/** A server for tests that knows a few documents. Whoever asks for another one waits for ever. */

import { vi } from "vitest";

/** The paths that were asked for, in their order. */
export function answering(documents: Record<string, unknown>): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (url: string) => {
    asked.push(url);
    const known = documents[url];
    return known === undefined ? new Promise<never>(() => undefined) : Promise.resolve(new Response(JSON.stringify(known)));
  });
  return asked;
}
