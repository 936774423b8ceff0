import { get } from "../../api/client";
import type { ExecutionDocument, Timeline } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Button } from "../../design/Button";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { ChildFailure } from "./children/ChildFailure";
import { FailureView } from "./FailureView";
import { OutputView } from "./OutputView";
import { isObject } from "./data/shapes";
import { failureOf, useResultFact } from "./useResultFact";

interface ResultProps {
  timeline: Timeline;
  onSelect: (step: string) => void;
}

/** The step that failed first. The server reads the whole log to find it, so the error is shown before. */
function FailedStep({ timeline, onSelect }: ResultProps) {
  const { execution_id: id, seq } = timeline;
  const { data } = useResource<ExecutionDocument>(`${id} ${seq}`, (signal) => get(`/executions/${id}`, {}, signal));
  const { step, run, iteration } = data?.error ?? {};
  if (step == null) return null;
  const child = timeline.steps.flatMap((line) => line.runs).find((each) => each.id === run)?.child;
  return (
    <>
    {child != null && <ChildFailure id={child} />}
    <span className="row wrap">
      <Button small onClick={() => onSelect(step)}>Show {step}</Button>
      {iteration != null && <span className="soft">iteration {iteration.toLocaleString()} failed first</span>}
    </span>
    </>
  );
}

/** The result of a finished execution: its output or its error. */
export function ResultPane({ timeline, onSelect }: ResultProps) {
  const { data, error, reload } = useResultFact(timeline);
  if (error !== undefined) return <ErrorNotice error={error} onRetry={reload} />;
  if (data === undefined) return <SkeletonRows rows={4} />;
  const failure = failureOf(data);
  const { output } = data.data;
  const hasOutput = isObject(output) && (output.data != null || output.ref != null);
  return (
    <div className="stack">
      <h2 className="visually-hidden">Result</h2>
      {failure !== null && <FailureView {...failure} />}
      {failure !== null && <FailedStep timeline={timeline} onSelect={onSelect} />}
      {hasOutput && (
        <section>
          <h3 className="label">Output</h3>
          <OutputView execution={timeline.execution_id} output={{ ...output, error: undefined }} />
        </section>
      )}
      {!hasOutput && failure === null && <p className="soft">No output.</p>}
    </div>
  );
}
