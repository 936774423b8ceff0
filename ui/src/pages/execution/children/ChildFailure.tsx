import { get } from "../../../api/client";
import type { ExecutionDocument } from "../../../api/types";
import { useResource } from "../../../api/useResource";
import { Link } from "../../../app/router";
import { SkeletonRows } from "../../../design/Skeleton";
import { FailureView } from "../FailureView";

/** The error of an execution that a step has called: its own message, traceback and printed lines. */
export function ChildFailure({ id }: { id: string }) {
  const { data, error } = useResource<ExecutionDocument>(`child ${id}`, (signal) => get(`/executions/${id}`, {}, signal));
  const link = <Link to={`/executions/${id}`}>Open the called execution</Link>;
  if (error !== undefined) return link;
  if (data === undefined) return <SkeletonRows rows={2} />;
  const failure = data.error;
  return (
    <section className="child-failure" aria-label="Error of the called execution">
      <h3 className="label">In the called execution{failure?.step != null && <>, step <code>{failure.step}</code></>}</h3>
      {failure != null && <FailureView kind={failure.kind} message={failure.message} details={failure.details} cause={failure.cause} />}
      {failure?.printed !== undefined && failure.printed !== "" && <pre className="traceback">{failure.printed}</pre>}
      {link}
    </section>
  );
}
