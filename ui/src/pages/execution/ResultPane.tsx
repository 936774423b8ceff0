import { get } from "../../api/client";
import type { Show, Timeline } from "../../api/types";
import { useResource } from "../../api/useResource";
import { Button } from "../../design/Button";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { FailureView } from "./FailureView";
import { OutputView } from "./OutputView";

interface ResultProps {
  timeline: Timeline;
  onSelect: (step: string) => void;
}

/** What came of an execution that has ended: what it gave back, or why it did not. */
export function ResultPane({ timeline, onSelect }: ResultProps) {
  const { execution_id: id, seq } = timeline;
  const { data, error, reload } = useResource<Show>(`${id} ${seq}`, (signal) => get(`/executions/${id}`, {}, signal));
  if (error !== undefined) return <Failed error={error} onRetry={reload} />;
  if (data === undefined) return <SkeletonRows rows={4} />;
  const step = data.error?.step;
  return (
    <div className="stack">
      <h2 className="visually-hidden">Result</h2>
      {data.error !== null && <FailureView kind={data.error.kind} message={data.error.message} details={data.error.details} />}
      {step != null && (
        <span><Button small onClick={() => onSelect(step)}>Look at {step}</Button></span>
      )}
      {data.output !== null && data.output.data !== null || data.output?.ref !== undefined ? (
        <section>
          <h3 className="label">Output</h3>
          <OutputView execution={id} output={{ ...data.output, error: undefined }} />
        </section>
      ) : (
        data.error === null && <p className="soft">It gave nothing back.</p>
      )}
    </div>
  );
}
