import { useEffect } from "react";
import { get } from "../../api/client";
import type { components } from "../../api/schema";
import { follow } from "../../api/stream";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { StatusBadge } from "../../design/Badge";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { duration, secondsBetween, shortTime, wholeTime } from "../../design/times";

type Heads = components["schemas"]["ExecutionsPage"];
type Head = components["schemas"]["ExecutionSummary"];

const SHOWN = 20;

/** The newest executions of a path; they change while one looks. */
export function LastRuns({ path, digest }: { path: string; digest: string }) {
  const runs = useResource<Heads>(`runs ${path}`, (signal) => get("/executions", { path, limit: SHOWN }, signal));
  const { reload } = runs;
  useEffect(
    () =>
      follow({
        path: "/stream",
        onEvents: (events) => {
          const heads = events.filter((each) => each.event === "head").map((each) => JSON.parse(each.data) as Head);
          if (heads.some((head) => head.path === path)) reload();
        },
      }),
    [path, reload],
  );
  if (runs.error !== undefined) return <Failed error={runs.error} onRetry={reload} />;
  if (runs.data === undefined) return <SkeletonRows />;
  if (runs.data.items.length === 0) return <Empty title="It has not run yet">Open “Run”, and start it.</Empty>;
  return (
    <div className="stack">
      <div className="table-scroll">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Status</th>
              <th scope="col">Execution</th>
              <th scope="col">Started</th>
              <th scope="col">Took</th>
            </tr>
          </thead>
          <tbody>
            {runs.data.items.map((each) => (
              <tr key={each.execution_id}>
                <td><StatusBadge status={each.status} /></td>
                <td>
                  <Link to={`/executions/${each.execution_id}`} className="mono">{each.execution_id.slice(-12)}</Link>
                  {each.digest !== digest && <span className="faint"> another version</span>}
                </td>
                <td title={wholeTime(each.started_at)}>{shortTime(each.started_at)}</td>
                <td className="numbers">{duration(secondsBetween(each.started_at, each.updated_at))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Link to={`/executions?path=${encodeURIComponent(path)}`}>All executions of {path}</Link>
    </div>
  );
}
