import { useState } from "react";
import { hasStarted, isLive } from "../../api/commands";
import type { Timeline } from "../../api/types";
import { SkeletonRows } from "../../design/Skeleton";
import { Tabs } from "../../design/Tabs";
import { ContextPane } from "./ContextPane";
import { FactPane } from "./FactPane";
import { ResultPane } from "./ResultPane";
import { StepPane } from "./StepPane";
import { WhyPane } from "./WhyPane";
import type { Cursor } from "./useCursor";
import { useMoment } from "./useMoment";

interface InspectorProps {
  timeline: Timeline;
  loaded: boolean; // whether the runs of the steps are known
  cursor: Cursor;
  step: string | null;
  onSelect: (step: string) => void;
}

const NO_STEP = <p className="soft">Select a step in the net or in the timeline.</p>;

/** Details of the fact at the cursor and of the selected step. */
export function Inspector({ timeline, loaded, cursor, step, onSelect }: InspectorProps) {
  const id = timeline.execution_id;
  const [state, setState] = useState<{ step: string | null; tab: string | null }>({ step, tab: step === null ? null : "step" });
  // Selecting a step opens its tab.
  if (state.step !== step) setState({ step, tab: step === null ? null : state.tab === "why" ? "why" : "step" });
  const started = hasStarted(timeline);
  const ended = !isLive(timeline.status) && started;
  const result = { id: "result", label: "Result", body: <ResultPane timeline={timeline} onSelect={onSelect} /> };
  // The default tab: the result at the end of a finished execution, otherwise the fact at the cursor.
  const chosen = state.tab === "result" && !ended ? null : state.tab; // A retry may have resumed it.
  const tab = chosen ?? (ended && cursor.live ? "result" : "fact");
  const atCursor = useMoment(id, tab === "result" ? 0 : cursor.seq); // The result tab does not need it.
  // If only one step was reached, show that one.
  const known = step ?? (timeline.steps.length === 1 ? (timeline.steps[0]?.step ?? null) : null);
  const ofStep = [
    { id: "step", label: "Step", body: known === null ? NO_STEP : !loaded ? <SkeletonRows rows={4} /> : <StepPane key={known} timeline={timeline} step={known} cursor={cursor} /> },
    { id: "why", label: "Why", body: known === null ? NO_STEP : <WhyPane id={id} step={known} last={timeline.seq} /> },
  ];
  return (
    <aside className="inspector card" aria-label="Inspector">
      <Tabs
        label="Details"
        chosen={tab}
        onChoose={(wanted) => setState({ step, tab: wanted })}
        tabs={[
          ...(ended ? [result] : []),
          { id: "fact", label: "Event", body: <FactPane execution={id} state={atCursor} /> },
          { id: "ctx", label: "Context", count: (tab !== "result" && atCursor.moment?.changes.length) || undefined, body: <ContextPane state={atCursor} /> },
          ...(started ? ofStep : []),
        ]}
      />
    </aside>
  );
}
