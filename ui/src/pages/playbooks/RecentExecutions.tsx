import { useEffect } from "react";
import { get } from "../../api/client";
import type { Head, HeadsPage } from "../../api/types";
import { follow } from "../../api/stream";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { StatusBadge } from "../../design/Badge";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { duration, secondsBetween, shortTime, wholeTime } from "../../design/time";

const SHOWN = 20;

/** The newest executions of a playbook, kept up to date. */
export function RecentExecutions({ path, digest }: { path: string; digest: string }) {
  const runs = useResource<HeadsPage>(`runs ${path}`, (signal) => get("/executions", { path, limit: SHOWN }, signal));
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
  if (runs.error !== undefined) return <ErrorNotice error={runs.error} onRetry={reload} />;
  if (runs.data === undefined) return <SkeletonRows />;
  if (runs.data.items.length === 0) return <EmptyState title="No executions yet">Start one in the Run tab.</EmptyState>;
  return (
    <div className="stack">
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Recent executions">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Status</th>
              <th scope="col">Execution</th>
              <th scope="col">Started</th>
              <th scope="col">Duration</th>
            </tr>
          </thead>
          <tbody>
            {runs.data.items.map((each) => (
              <tr key={each.execution_id}>
                <td><StatusBadge status={each.status} /></td>
                <td>
                  <Link to={`/executions/${each.execution_id}`} className="mono">{each.execution_id.slice(-12)}</Link>
                  {each.digest !== digest && <span className="faint"> other version</span>}
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
