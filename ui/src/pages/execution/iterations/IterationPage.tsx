import { useEffect, useState } from "react";
import { get, isNotFound } from "../../../api/client";
import type { CallBar, IterationDetails } from "../../../api/types";
import { useInterval } from "../../../api/useInterval";
import { useResource } from "../../../api/useResource";
import { Link, navigate } from "../../../app/router";
import { useHasScope } from "../../../app/session";
import { StatusBadge } from "../../../design/Badge";
import { Button } from "../../../design/Button";
import { EmptyState } from "../../../design/EmptyState";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { SkeletonRows } from "../../../design/Skeleton";
import { duration, secondsBetween, wholeTime } from "../../../design/time";
import type { PageProps } from "../../../routes";
import { OutputView } from "../OutputView";
import { ChildFailure } from "../children/ChildFailure";
import { DataView } from "../data/DataView";
import "../data/data.css";
import { ExecutionContext } from "../data/execution";
import "../execution.css";
import { useFact } from "../useFact";
import "./iterations.css";
import { iterationLink } from "./links";
import { retryIteration } from "./retry";

const LOOK_MS = 2000;

/** The finished calls over time. */
function CallTimeline({ calls }: { calls: readonly CallBar[] }) {
  const timed = calls.filter((call) => call.started_at != null);
  const start = timed[0]?.started_at ?? "";
  const endOf = (call: CallBar) => secondsBetween(start, call.started_at ?? start) + (call.ms ?? 0) / 1000;
  const whole = Math.max(0.001, ...timed.map(endOf));
  return (
    <ul className="call-timeline" aria-label="Timeline">
      {calls.map((call) => {
        const from = call.started_at == null ? 0 : secondsBetween(start, call.started_at);
        return (
          <li key={call.seq}>
            <span className="call-name"><code className="cut">{call.task}</code>{call.attempt > 1 && <span className="soft"> attempt {call.attempt}</span>}</span>
            <span className="call-track">
              <i className={call.status} style={{ left: `${(100 * from) / whole}%`, width: `${Math.max(0.5, (100 * (call.ms ?? 0)) / 1000 / whole)}%` }} />
            </span>
            <span className="numbers faint">{duration((call.ms ?? 0) / 1000)}</span>
            <span className="soft">{call.status}, {call.directive}</span>
            {call.error != null && <span className="attempt-error bad">{call.error}</span>}
          </li>
        );
      })}
    </ul>
  );
}

/** One iteration of a loop: its item, its calls over time, and its output. */
export default function IterationPage({ location, values }: PageProps) {
  const id = values.id ?? "";
  const run = location.query.get("run") ?? "";
  const index = Number(location.query.get("index") ?? 0);
  const { data, error, reload } = useResource<IterationDetails>(`${id} ${run} ${index}`, (signal) => get(`/executions/${id}/iterations/one`, { run, index }, signal));
  const done = data?.iteration.done_seq ?? null;
  const output = useFact(id, done);
  const live = data !== undefined && ["waiting", "running"].includes(data.iteration.status);
  const [retried, setRetried] = useState<string | null>(null); // the run of which it was retried here
  const follow = retried === run;
  const newer = data?.retried_by ?? null;
  useInterval(LOOK_MS, () => {
    if (live || follow) reload();
  });
  useEffect(() => {
    if (follow && newer !== null) navigate(iterationLink(id, newer, index), { replace: true });
  }, [follow, newer, id, index]);
  const canRun = useHasScope("run");
  const retry = async (step: string) => {
    if (!(await retryIteration(id, step, index))) return;
    setRetried(run);
    reload();
  };
  const back = `/executions/${id}?tab=iterations&loop=${encodeURIComponent(run)}`;
  if (isNotFound(error)) {
    return <EmptyState fullPage title="Iteration not found" action={<Link className="button" to={`/executions/${id}`}>To the execution</Link>}><code>{run}[{index}]</code></EmptyState>;
  }
  return (
    <ExecutionContext value={id}>
      <div className="page iteration-page">
        <div className="page-head">
          <h1>{run}[{index}]</h1>
          {data !== undefined && <StatusBadge status={data.iteration.status} />}
          <span className="grow" />
          {canRun && data?.can_retry === true && (
            <Button small variant="primary" disabled={follow} title="Only this iteration; others that failed stay failed" onClick={() => void retry(data.step)}>Retry this iteration</Button>
          )}
          {newer !== null && <Link className="button small" to={iterationLink(id, newer, index)}>Retried in {newer}</Link>}
          {index > 0 && <Link className="button small" to={iterationLink(id, run, index - 1)}>Previous</Link>}
          <Link className="button small" to={iterationLink(id, run, index + 1)}>Next</Link>
          <Link className="button small" to={`/executions/${id}?tab=logs&log=${encodeURIComponent(`${run}[${index}]`)}`}>Logs</Link>
          <Link className="button small" to={back}>All iterations</Link>
        </div>
        {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
        {data === undefined && error === undefined && <SkeletonRows />}
        {data !== undefined && (
          <div className="card stack iteration-parts">
            <p className="row wrap soft numbers">
              {data.iteration.started_at != null && <span>started {wholeTime(data.iteration.started_at)}</span>}
              <span>{duration(data.iteration.duration_s)}</span>
              {data.iteration.attempts > 1 && <span>{data.iteration.attempts} attempts</span>}
              {data.iteration.child != null && <Link to={`/executions/${data.iteration.child}`}>called playbook</Link>}
            </p>
            {data.iteration.error != null && <div className="notice error failure-message">{data.iteration.error}</div>}
            {data.iteration.error != null && data.iteration.child != null && <ChildFailure id={data.iteration.child} />}
            <section>
              <h2 className="label">Item</h2>
              <DataView execution={id} value={data.value} />
            </section>
            <section>
              <h2 className="label">Calls</h2>
              {data.calls.length === 0 ? <p className="soft">No call has ended yet.</p> : <CallTimeline calls={data.calls} />}
              {!data.complete && <p className="faint">The log of this iteration is long: later calls are in the events.</p>}
            </section>
            {done !== null && data.iteration.error == null && (
              <section>
                <h2 className="label">Output</h2>
                {output.data === undefined ? <SkeletonRows rows={2} /> : <OutputView execution={id} output={output.data.data.output} />}
              </section>
            )}
          </div>
        )}
      </div>
    </ExecutionContext>
  );
}
