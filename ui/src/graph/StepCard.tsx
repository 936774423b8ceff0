import { Handle, type Node, type NodeProps, Position } from "@xyflow/react";
import { memo } from "react";
import type { GraphStep } from "../api/types";
import { useGraphState } from "./context";
import { KindIcon } from "./KindIcon";
import type { StepState } from "./overlay";

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

function Progress({ progress }: { progress: NonNullable<StepState["progress"]> }) {
  const { done, lost, total } = progress;
  const part = (count: number) => `${total === 0 ? 0 : (100 * count) / total}%`;
  return (
    <div className="progress" title={`${done} of ${total} iterations, ${lost} failed`}>
      <i className="done" style={{ width: part(done) }} />
      <i className="lost" style={{ width: part(lost) }} />
    </div>
  );
}

function describeStep(step: GraphStep, state: StepState | undefined): string {
  if (state === undefined) return step.kinds.join(" · ") || "no task";
  const { progress } = state;
  const counted = progress === null ? "" : ` ${(progress.done + progress.lost).toLocaleString()}/${progress.total.toLocaleString()}`;
  return state.text + counted;
}

function Card({ step }: { step: GraphStep }) {
  const { overlay, live, selected, onSelect } = useGraphState();
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
      {state?.progress != null && <Progress progress={state.progress} />}
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
