/** Commands to an execution. A toast shows the result. */

import { toast } from "../design/toasts";
import { post } from "./client";
import { errorMessage } from "./problem";
import type { Started } from "./types";

export type Command = "pause" | "resume" | "cancel" | "retry" | "signal";

/** What has happened, by the status after the command: a cancellation takes as long as its running calls. */
function confirmationOf(name: Command, status: string): string {
  if (name === "pause") return "Paused: running calls finish, no new step starts";
  if (name === "resume") return "Resumed";
  if (name === "cancel") return status === "cancelled" ? "Cancelled" : "Cancelling: running calls have 10 s to stop";
  return name === "retry" ? "Retrying the failed parts" : "Signal sent";
}

const listeners = new Set<(id: string) => void>();

/** Calls the listener after each command from this page: a finished execution may run again. */
export function onCommand(listener: (id: string) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Tells the parts of the page that a request of it has changed an execution. */
export function announceCommand(id: string): void {
  for (const listener of listeners) listener(id);
}

export async function sendCommand(id: string, name: Command, body: object = {}): Promise<boolean> {
  try {
    const { status } = await post<Started>(`/executions/${id}/${name}`, body);
    toast(confirmationOf(name, status));
    announceCommand(id);
    return true;
  } catch (error) {
    toast(errorMessage(error), "error");
    return false;
  }
}

const LIVE = new Set(["new", "running", "paused", "cancelling"]);

export const isLive = (status: string): boolean => LIVE.has(status);

interface ExecutionState {
  status: string;
  seq: number;
  owner_alive?: boolean; // false: the process that ran it has ended, and no other process runs it
}

/** It is not finished, and no process runs it. */
export const isInterrupted = ({ status, owner_alive: owned }: ExecutionState): boolean => isLive(status) && owned === false;

interface Held {
  status: string;
  why?: string | null; // why the whole execution does not advance
}

/** Nothing of it runs, although it has not ended: "paused", "interrupted"; null: it runs. */
export function heldAs({ status, why }: Held): string | null {
  if (why?.startsWith("interrupted") === true) return "interrupted";
  return status === "paused" ? status : null;
}

/** The reason of a run whose frames wait because the execution holds its share of a pool; its other frames run. */
export const waitsForShare = (why?: string | null): boolean => why?.startsWith("waits for a slot") === true;

interface Waiting {
  status: string;
  why?: string | null;
  iterations?: unknown; // null: no loop
}

/** What a run waits for, after the name of its step. Of a loop that runs, only some iterations wait for the share. */
export function reasonOf({ status, why, iterations }: Waiting): string {
  const text = why ?? "";
  return waitsForShare(why) && status === "running" && iterations != null ? text.replace("waits", "has iterations that wait") : text;
}

export const isHeld = (state: Held): boolean => heldAs(state) !== null;

const REFUSED_FACTS = 3; // a refused request has three facts: requested, evaluated, processed

/** False for a refused request: it has no steps, no output and often no playbook. */
export const hasStarted = ({ status, seq }: ExecutionState): boolean => isLive(status) || seq > REFUSED_FACTS;

/** The commands that are possible in the current state. */
export function allowedCommands(state: ExecutionState): Command[] {
  const { status } = state;
  if (status === "running" && isInterrupted(state)) return ["resume", "cancel"];
  if (status === "running" || status === "new") return ["pause", "cancel"];
  if (status === "paused") return ["resume", "cancel"];
  return (status === "error" || status === "cancelled") && hasStarted(state) ? ["retry"] : [];
}
