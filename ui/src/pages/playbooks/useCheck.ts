/** The server's own check of a text, and its net, a moment after the last change; the latest text wins. */

import { useEffect, useState } from "react";
import { post } from "../../api/client";
import { inWords, wasAborted } from "../../api/problem";
import type { components } from "../../api/schema";
import type { Problem } from "../../editor/problems";

type Check = components["schemas"]["CheckResponse"];
export type Graph = components["schemas"]["PlaybookGraph"];

const PAUSE_MS = 300;

export interface Checked {
  text: string | null; // what was checked; another one is still to be
  problems: readonly Problem[];
  ok: boolean;
  graph: Graph | null; // of the last text that could be drawn
  error: string | null; // why there is no check
}

const NOTHING: Checked = { text: null, problems: [], ok: false, graph: null, error: null };

export function useCheck(text: string): Checked {
  const [checked, setChecked] = useState<Checked>(NOTHING);
  useEffect(() => {
    const abort = new AbortController();
    const look = async () => {
      try {
        const asked = { signal: abort.signal };
        const [check, graph] = await Promise.all([
          post<Check>("/playbooks/check", { text }, asked),
          // A text with errors has no net, or half of one: then the last one stays.
          post<Graph>("/playbooks/graph", { text }, asked).catch(() => null),
        ]);
        if (abort.signal.aborted) return;
        setChecked((old) => ({ text, problems: check.problems, ok: check.ok, graph: graph ?? old.graph, error: null }));
      } catch (error) {
        if (!wasAborted(error)) setChecked((old) => ({ ...old, text, error: inWords(error) }));
      }
    };
    const timer = setTimeout(() => void look(), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return checked;
}
