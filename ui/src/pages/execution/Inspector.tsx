import { useState } from "react";
import { isLive } from "../../api/commands";
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
  const shown = useMoment(id, cursor.seq);
  const [state, setState] = useState<{ step: string | null; tab: string | null }>({ step, tab: step === null ? null : "step" });
  // Whoever chooses a step wants to see it.
  if (state.step !== step) setState({ step, tab: step === null ? null : state.tab === "why" ? "why" : "step" });
  const ended = !isLive(timeline.status);
  const result = { id: "result", label: "Result", body: <ResultPane timeline={timeline} onSelect={onSelect} /> };
  // Until something is chosen: at the end what came of it, on the way what happened.
  const tab = state.tab ?? (ended && cursor.live ? "result" : "fact");
  return (
    <aside className="inspector card" aria-label="Inspector">
      <Tabs
        label="What to look at"
        chosen={tab}
        onChoose={(chosen) => setState({ step, tab: chosen })}
        tabs={[
          ...(ended ? [result] : []),
          { id: "fact", label: "Event", body: <FactPane execution={id} shown={shown} /> },
          { id: "ctx", label: "Context", count: shown.moment?.changes.length || undefined, body: <ContextPane shown={shown} /> },
          { id: "step", label: "Step", body: step === null ? NO_STEP : <StepPane key={step} timeline={timeline} step={step} cursor={cursor} /> },
          { id: "why", label: "Why", body: step === null ? NO_STEP : <WhyPane id={id} step={step} last={timeline.seq} /> },
        ]}
      />
    </aside>
  );
}
