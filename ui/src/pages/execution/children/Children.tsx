import { get, isNotFound } from "../../../api/client";
import { isInterrupted, isLive } from "../../../api/commands";
import type { ExecutionTree, Head, Timeline } from "../../../api/types";
import { useInterval } from "../../../api/useInterval";
import { useResource } from "../../../api/useResource";
import { Link } from "../../../app/router";
import { StatusBadge } from "../../../design/Badge";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { SkeletonRows } from "../../../design/Skeleton";
import { duration, secondsBetween } from "../../../design/time";
import "./children.css";

const LOOK_MS = 3000;
const DEPTH_MAX = 16;

/** The parent of an execution is a call: `<execution>/<frame>/<call>`. */
const executionOf = (call: string): string => call.split("/")[0] ?? call;

/** The tree from the first caller, or from the first one that this user can read. */
async function loadTree(id: string, signal: AbortSignal): Promise<ExecutionTree> {
  let head = await get<Head>(`/executions/${id}/head`, {}, signal);
  for (let depth = 0; head.parent != null && depth < DEPTH_MAX; depth += 1) {
    try {
      head = await get<Head>(`/executions/${executionOf(head.parent)}/head`, {}, signal);
    } catch (error) {
      if (!isNotFound(error)) throw error;
      break;
    }
  }
  return get<ExecutionTree>(`/executions/${head.execution_id}/tree`, {}, signal);
}

const isTreeLive = ({ execution, children = [] }: ExecutionTree): boolean => isLive(execution.status) || children.some(isTreeLive);

function TreeRow({ tree, current }: { tree: ExecutionTree; current: string }) {
  const { execution, children = [], left_out: leftOut = 0 } = tree;
  const { execution_id: id, path, status, started_at: started, updated_at: updated, parent } = execution;
  const call = parent == null ? "" : parent.slice(executionOf(parent).length + 1);
  const here = id === current;
  return (
    <li>
      <div className={`tree-row${here ? " current" : ""}`} aria-current={here || undefined}>
        <StatusBadge status={isInterrupted(execution) ? "interrupted" : status} />
        {here ? <b className="cut">{path}</b> : <Link className="cut" to={`/executions/${id}`}>{path}</Link>}
        {call !== "" && <code className="faint cut" title={`called by ${call}`}>{call}</code>}
        <span className="faint numbers">{isLive(status) ? "" : duration(secondsBetween(started, updated))}</span>
        <code className="faint cut tree-id" title={id}>{id}</code>
      </div>
      {(children.length > 0 || leftOut > 0) && (
        <ul>
          {children.map((child) => <TreeRow key={child.execution.execution_id} tree={child} current={current} />)}
          {leftOut > 0 && <li className="faint">{leftOut.toLocaleString()} more are not listed</li>}
        </ul>
      )}
    </li>
  );
}

/** All executions of the tree that this one belongs to: its callers, itself, and those that it has called. */
export default function Children({ timeline }: { timeline: Timeline }) {
  const id = timeline.execution_id;
  const { data, error, reload } = useResource<ExecutionTree>(`tree ${id}`, (signal) => loadTree(id, signal));
  useInterval(LOOK_MS, () => {
    if (data === undefined || isTreeLive(data)) reload();
  });
  if (error !== undefined) return <ErrorNotice error={error} onRetry={reload} />;
  if (data === undefined) return <SkeletonRows rows={4} />;
  return <ul className="execution-tree" aria-label="Tree of executions"><TreeRow tree={data} current={id} /></ul>;
}
