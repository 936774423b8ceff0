/** A word to an execution. Says in a toast how it went. */

import { toast } from "../design/toasts";
import { post } from "./client";
import { inWords } from "./problem";

export type Command = "pause" | "resume" | "cancel" | "retry" | "signal";

const SAID: Record<Command, string> = {
  pause: "Paused: what runs finishes, nothing new begins",
  resume: "It goes on",
  cancel: "Cancelled",
  retry: "What failed is taken up again",
  signal: "Signal sent",
};

const listeners = new Set<(id: string) => void>();

/** Tells of executions that were given a word from here: one that had ended may go on. */
export function onCommand(listener: (id: string) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export async function command(id: string, word: Command, body: object = {}): Promise<boolean> {
  try {
    await post(`/executions/${id}/${word}`, body);
    toast(SAID[word]);
    for (const listener of listeners) listener(id);
    return true;
  } catch (error) {
    toast(inWords(error), "error");
    return false;
  }
}

const LIVE = new Set(["new", "running", "paused", "cancelling"]);

export const isLive = (status: string): boolean => LIVE.has(status);

interface Standing {
  status: string;
  seq: number;
  owner_alive?: boolean; // false: its process has ended, and nobody has taken it up
}

/** It is open, and nobody runs it. */
export const isInterrupted = ({ status, owner_alive: owned }: Standing): boolean => isLive(status) && owned === false;

const REFUSED_FACTS = 3; // it was asked for, it can not run, that is all

/** What was refused has no steps, no output, and often no playbook. */
export const hasBegun = ({ status, seq }: Standing): boolean => isLive(status) || seq > REFUSED_FACTS;

/** Which words fit how it stands. */
export function fitting(standing: Standing): Command[] {
  const { status } = standing;
  if (status === "running" && isInterrupted(standing)) return ["resume", "cancel"];
  if (status === "running" || status === "new") return ["pause", "cancel"];
  if (status === "paused") return ["resume", "cancel"];
  return (status === "error" || status === "cancelled") && hasBegun(standing) ? ["retry"] : [];
}
