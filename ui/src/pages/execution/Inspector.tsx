import { useState } from "react";
import { hasBegun, isLive } from "../../api/commands";
import type { Timeline } from "../../api/types";
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
  cursor: Cursor;
  step: string | null;
  onSelect: (step: string) => void;
}

const NO_STEP = <p className="soft">Choose a step in the net or in the timeline.</p>;

/** What lies under the cursor, and what is known of the step that was chosen. */
export function Inspector({ timeline, cursor, step, onSelect }: InspectorProps) {
  const id = timeline.execution_id;
  const [state, setState] = useState<{ step: string | null; tab: string | null }>({ step, tab: step === null ? null : "step" });
  // Whoever chooses a step wants to see it.
  if (state.step !== step) setState({ step, tab: step === null ? null : state.tab === "why" ? "why" : "step" });
  const begun = hasBegun(timeline);
  const ended = !isLive(timeline.status) && begun;
  const result = { id: "result", label: "Result", body: <ResultPane timeline={timeline} onSelect={onSelect} /> };
  // Until something is chosen: at the end what came of it, on the way what happened.
  const chosen = state.tab === "result" && !ended ? null : state.tab; // It may have been taken up again.
  const tab = chosen ?? (ended && cursor.live ? "result" : "fact");
  const shown = useMoment(id, tab === "result" ? 0 : cursor.seq); // Beside the result nothing is shown of it.
  // Where only one step was reached, there is nothing to choose.
  const known = step ?? (timeline.steps.length === 1 ? (timeline.steps[0]?.step ?? null) : null);
  const ofStep = [
    { id: "step", label: "Step", body: known === null ? NO_STEP : <StepPane key={known} timeline={timeline} step={known} cursor={cursor} /> },
    { id: "why", label: "Why", body: known === null ? NO_STEP : <WhyPane id={id} step={known} last={timeline.seq} /> },
  ];
  return (
    <aside className="inspector card" aria-label="Inspector">
      <Tabs
        label="What to look at"
        chosen={tab}
        onChoose={(wanted) => setState({ step, tab: wanted })}
        tabs={[
          ...(ended ? [result] : []),
          { id: "fact", label: "Event", body: <FactPane execution={id} shown={shown} /> },
          { id: "ctx", label: "Context", count: (tab !== "result" && shown.moment?.changes.length) || undefined, body: <ContextPane shown={shown} /> },
          ...(begun ? ofStep : []),
        ]}
      />
    </aside>
  );
}
