import { useState } from "react";
import type { Timeline } from "../../api/types";
import { Tabs } from "../../design/Tabs";
import { ContextPane } from "./ContextPane";
import { FactPane } from "./FactPane";
import { StepPane } from "./StepPane";
import { WhyPane } from "./WhyPane";
import type { Cursor } from "./useCursor";
import { useMoment } from "./useMoment";

interface InspectorProps {
  timeline: Timeline;
  cursor: Cursor;
  step: string | null;
}

const NO_STEP = <p className="soft">Choose a step in the net or in the timeline.</p>;

/** What lies under the cursor, and what is known of the step that was chosen. */
export function Inspector({ timeline, cursor, step }: InspectorProps) {
  const id = timeline.execution_id;
  const shown = useMoment(id, cursor.seq);
  const [state, setState] = useState({ step, tab: step === null ? "fact" : "step" });
  // Whoever chooses a step wants to see it.
  if (state.step !== step) setState({ step, tab: step === null ? "fact" : state.tab === "why" ? "why" : "step" });
  return (
    <aside className="inspector card" aria-label="Inspector">
      <Tabs
        label="What to look at"
        chosen={state.tab}
        onChoose={(tab) => setState({ step, tab })}
        tabs={[
          { id: "fact", label: "Event", body: <FactPane execution={id} shown={shown} /> },
          { id: "ctx", label: "Context", count: shown.moment?.changes.length || undefined, body: <ContextPane shown={shown} /> },
          { id: "step", label: "Step", body: step === null ? NO_STEP : <StepPane key={step} timeline={timeline} step={step} cursor={cursor} /> },
          { id: "why", label: "Why", body: step === null ? NO_STEP : <WhyPane id={id} step={step} last={timeline.seq} /> },
        ]}
      />
    </aside>
  );
}
