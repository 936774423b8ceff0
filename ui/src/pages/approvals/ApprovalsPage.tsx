import { get } from "../../api/client";
import type { HeadsPage, PersonWait } from "../../api/types";
import { useInterval } from "../../api/useInterval";
import { useResource } from "../../api/useResource";
import { Link } from "../../app/router";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { ago, wholeTime } from "../../design/time";
import { useNow } from "../../design/useNow";
import "./approvals.css";
import { decisionPage } from "./links";

const RELOAD_MS = 5_000;
const PAGE = 200;

/** Everything that waits for a person, the longest wait first. */
export default function ApprovalsPage() {
  const waiting = useResource<HeadsPage>("waiting", (signal) =>
    get("/executions", { waiting: true, limit: PAGE, total: true }, signal),
  );
  useInterval(RELOAD_MS, waiting.reload);
  const now = useNow(10_000, true);
  const items = (waiting.data?.items ?? [])
    .flatMap((head) => (head.waits ?? []).map((wait) => ({ head, wait, since: wait.since ?? head.updated_at })))
    .sort((one, other) => one.since.localeCompare(other.since));
  const executions = waiting.data?.total ?? 0;
  return (
    <div className="page approvals">
      <div className="page-head">
        <h1>Approvals</h1>
        <span className="soft numbers" role="status" aria-label="Total">
          {waiting.data !== undefined && `${executions.toLocaleString("en")} ${executions === 1 ? "execution waits" : "executions wait"} for a person`}
        </span>
      </div>
      {waiting.error !== undefined && <ErrorNotice error={waiting.error} onRetry={waiting.reload} />}
      {waiting.loading && waiting.data === undefined && <SkeletonRows />}
      {waiting.data !== undefined && items.length === 0 && (
        <div className="card">
          <EmptyState title="No decisions to make">
            An execution appears here while a <code>wait</code> task waits for a signal.
          </EmptyState>
        </div>
      )}
      {items.length > 0 && (
        <ul className="card approvals-list" aria-label="Open decisions">
          {items.map(({ head, wait, since }) => (
            <li key={`${head.execution_id} ${wait.frame}`}>
              <Link to={decisionPage(head.execution_id, wait.frame)}>
                <b>{questionOf(wait, head.path)}</b>
                <span className="soft cut">{head.path} · <code>{wait.frame}</code></span>
              </Link>
              <span className="soft numbers" title={wholeTime(since)}>{ago(since, now)}</span>
            </li>
          ))}
        </ul>
      )}
      {waiting.data !== undefined && executions > PAGE && <p className="soft">The newest {PAGE} executions are shown. The <Link to="/executions?waiting=true">list of executions</Link> has all of them.</p>}
    </div>
  );
}

const questionOf = (wait: PersonWait, path: string): string => (wait.title == null || wait.title === "" ? `${path} waits for the signal ${wait.signal}` : wait.title);
