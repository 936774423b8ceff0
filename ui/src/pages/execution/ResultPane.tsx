import { get } from "../../api/client";
import type { Show, Timeline } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Button } from "../../design/Button";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { FailureView } from "./FailureView";
import { OutputView } from "./OutputView";
import { isMapping } from "./data/shapes";
import { failureIn, useEnding } from "./useEnding";

interface ResultProps {
  timeline: Timeline;
  onSelect: (step: string) => void;
}

/** Where it failed first. The server reads the whole log for it: what has failed is told before. */
function Where({ timeline, onSelect }: ResultProps) {
  const { execution_id: id, seq } = timeline;
  const { data } = useResource<Show>(`${id} ${seq}`, (signal) => get(`/executions/${id}`, {}, signal));
  const { step, iteration } = data?.error ?? {};
  if (step == null) return null;
  return (
    <span className="row wrap">
      <Button small onClick={() => onSelect(step)}>Look at {step}</Button>
      {iteration != null && <span className="soft">iteration {iteration.toLocaleString()} failed first</span>}
    </span>
  );
}

/** What came of an execution that has ended: what it gave back, or why it did not. */
export function ResultPane({ timeline, onSelect }: ResultProps) {
  const { data, error, reload } = useEnding(timeline);
  if (error !== undefined) return <Failed error={error} onRetry={reload} />;
  if (data === undefined) return <SkeletonRows rows={4} />;
  const failure = failureIn(data);
  const { output } = data.data;
  const gave = isMapping(output) && (output.data != null || output.ref != null);
  return (
    <div className="stack">
      <h2 className="visually-hidden">Result</h2>
      {failure !== null && <FailureView {...failure} />}
      {failure !== null && <Where timeline={timeline} onSelect={onSelect} />}
      {gave && (
        <section>
          <h3 className="label">Output</h3>
          <OutputView execution={timeline.execution_id} output={{ ...output, error: undefined }} />
        </section>
      )}
      {!gave && failure === null && <p className="soft">It gave nothing back.</p>}
    </div>
  );
}
