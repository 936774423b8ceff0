import { Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { memo } from "react";
import type { GraphStep } from "../api/types";
import { useGraphState } from "./context";
import { KindIcon } from "./KindIcon";
import type { Progress, StepState } from "./overlay";

export type StepNode = Node<{ step: GraphStep }, "step">;

const ICONS: Record<StepState["tone"], string> = {
  idle: "", waiting: "", running: "", ok: "✓", error: "✕", handled: "!", stopped: "■",
};

/** xyflow requires handles for its edges; our arcs have their own points. */
function Handles() {
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </>
  );
}

function Badges({ step }: { step: GraphStep }) {
  return (
    <>
      {step.join && <span className="mini" title="Waits for all tokens that can still arrive">join</span>}
      {step.gate && <span className="mini" title="Has admission rules">admit</span>}
      {step.fork && <span className="mini" title="Every arc whose condition is true fires">fork</span>}
    </>
  );
}

function ProgressBar({ progress }: { progress: Progress }) {
  const { done, lost, running, total } = progress;
  const part = (count: number) => `${total === 0 ? 0 : (100 * count) / total}%`;
  return (
    <div className="progress" title={`${done} of ${total} iterations, ${lost} failed`}>
      <i className="done" style={{ width: part(done) }} />
      <i className="lost" style={{ width: part(lost) }} />
      <i className="running" style={{ width: part(running) }} />
    </div>
  );
}

function describeStep(step: GraphStep, state: StepState | undefined): string {
  if (state === undefined) return step.kinds.join(" · ") || "no task";
  return state.progress === null ? state.text : describeLoop(state, state.progress);
}

/** "done 3/3" only if all have succeeded; otherwise each kind of iteration has its own number. */
function describeLoop(state: StepState, progress: Progress): string {
  const { done, lost, running, total } = progress;
  if (lost === 0 && running === 0) return `${state.text} ${done.toLocaleString()}/${total.toLocaleString()}`;
  const ended = ["ok", "error", "handled", "stopped"].includes(state.tone);
  const parts: [number, string][] = [[done, "ok"], [lost, "failed"], [running, "running"], [total - done - lost - running, ended ? "not run" : "waiting"]];
  return parts.filter(([count]) => count > 0).map(([count, what]) => `${count.toLocaleString()} ${what}`).join(" · ");
}

function Card({ step }: { step: GraphStep }) {
  const { overlay, live, selected, onSelect, onFocus } = useGraphState();
  const state = overlay.steps.get(step.name);
  const tone = state?.tone ?? (live ? "idle" : "plain");
  const text = describeStep(step, state);
  return (
    <button
      type="button"
      className={`step-card ${tone}${step.reached ? "" : " unreached"}`}
      aria-pressed={selected === step.name}
      title={[step.desc, text].filter(Boolean).join(": ")}
      onClick={() => onSelect(step.name)}
      onFocus={() => onFocus(step.name)}
    >
      <span className="step-icon">
        <KindIcon kind={step.kinds[0]} />
      </span>
      <span className="step-text">
        <span className="step-name">
          <span className="visually-hidden">Step </span>
          <span className="cut">{step.name}</span>
          <Badges step={step} />
        </span>
        <span className="step-summary">
          {step.loop !== null && state === undefined && <b>{step.loop} </b>}
          {text}
          {state !== undefined && state.retries > 0 && <em title="task retries"> ↻{state.retries}</em>}
        </span>
      </span>
      {state !== undefined && ICONS[tone as StepState["tone"]] !== "" && (
        <span className="step-sign" aria-hidden="true">{ICONS[tone as StepState["tone"]]}</span>
      )}
      {state !== undefined && state.runs > 1 && <span className="step-runs" title={`${state.runs} runs`}>×{state.runs}</span>}
      {state !== undefined && state.tokens > 0 && (
        <span className="step-tokens" title={`${state.tokens} tokens`}>
          {state.tokens > 1 ? state.tokens : ""}
        </span>
      )}
      {state?.progress != null && <ProgressBar progress={state.progress} />}
    </button>
  );
}

export const StepCard = memo(function StepCard({ data }: NodeProps<StepNode>) {
  const { step } = data;
  if (step.role === "entry" || step.role === "end") {
    return (
      <div className={`net-mark ${step.role}`} title={step.role === "entry" ? "Start" : "End"}>
        <Handles />
      </div>
    );
  }
  if (step.role !== "step") {
    return (
      <div className={`net-ghost ${step.role}`} title={step.role === "any" ? "A template chooses the step" : "This step does not exist"}>
        <Handles />
        <code className="cut">{step.name}</code>
      </div>
    );
  }
  return (
    <>
      <Handles />
      <Card step={step} />
    </>
  );
});
