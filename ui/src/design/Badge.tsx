import type { ReactNode } from "react";

export type Tone = "ok" | "error" | "running" | "waiting" | "neutral";

export function Badge({ tone = "neutral", children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span className={`badge ${tone}`}>
      <span className="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

const TONES: Record<string, Tone> = {
  ok: "ok",
  done: "ok",
  success: "ok",
  error: "error",
  failed: "error",
  running: "running",
  new: "running",
  in_progress: "running",
  cancelling: "waiting",
  paused: "waiting",
  interrupted: "waiting",
  waiting: "waiting",
  scheduled: "waiting",
};

/** The colour for the status of an execution, a step or an event. */
export function toneOf(status: string): Tone {
  return TONES[status] ?? "neutral";
}

export function StatusBadge({ status }: { status: string }) {
  return <Badge tone={toneOf(status)}>{status.replace("_", " ")}</Badge>;
}
