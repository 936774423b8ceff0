import { type CSSProperties, useDeferredValue, useState } from "react";
import { sendCommand } from "../../../api/commands";
import type { Iteration, RunBar, Timeline } from "../../../api/types";
import { Link, navigate, type RouteLocation, withQuery } from "../../../app/router";
import { useHasScope } from "../../../app/session";
import { StatusBadge } from "../../../design/Badge";
import { Button } from "../../../design/Button";
import { EmptyState } from "../../../design/EmptyState";
import { ErrorNotice } from "../../../design/ErrorNotice";
import { SkeletonRows } from "../../../design/Skeleton";
import { VirtualRows } from "../../../design/VirtualRows";
import { duration } from "../../../design/time";
import { useIsNarrow } from "../../../design/useMediaQuery";
import "./iterations.css";
import { iterationLink } from "./links";
import { retryIteration } from "./retry";
import { usePages } from "./usePages";

const STATUSES = ["ok", "failed", "running", "waiting"] as const;

/** An iteration that waits when its loop ends will not run. */
const statusName = (status: string, run: RunBar): string => (status === "waiting" && run.ended_at != null ? "not run" : status);

interface IterationRowProps {
  execution: string;
  run: RunBar;
  iteration: Iteration;
  canRetry: boolean;
  style: CSSProperties;
}

function IterationRow({ execution, run, iteration, canRetry, style }: IterationRowProps) {
  const { index, status, item, attempts, duration_s: seconds, output, error } = iteration;
  return (
    <div role="listitem" className="iteration-row" style={style}>
      <Link className="numbers" to={iterationLink(execution, run.id, index)} aria-label={`Iteration ${index}`}>[{index}]</Link>
      <StatusBadge status={statusName(status, run)} />
      <code className="cut" title={item}>{item}</code>
      <span className="numbers iteration-attempts" title={`${attempts} attempts`}>{attempts > 1 ? `×${attempts}` : ""}</span>
      <span className="faint numbers">{duration(seconds)}</span>
      {error != null ? <span className="bad cut iteration-result" title={error}>{error}</span> : <code className="cut soft iteration-result" title={output}>{output}</code>}
      {canRetry && status === "failed" && (
        <Button small aria-label={`Retry iteration ${index}`} title="Only this iteration; others that failed stay failed" onClick={() => void retryIteration(execution, run.step, index)}>Retry</Button>
      )}
    </div>
  );
}

/** The API retries the failed iterations of the newest run of a step; the others are kept. */
function RetryFailed({ timeline, run }: { timeline: Timeline; run: RunBar }) {
  return <Button small variant="primary" onClick={() => void sendCommand(timeline.execution_id, "retry", { step: run.step })}>Retry failed iterations</Button>;
}

interface IterationsProps {
  location: RouteLocation;
  timeline: Timeline;
  runs: readonly RunBar[]; // with loops, the newest last
  step: string | null;
}

/** The iterations of a loop. `?loop=` and `?iterations=` in the URL name the run and the status. */
export default function Iterations({ location, timeline, runs, step }: IterationsProps) {
  const id = timeline.execution_id;
  const wanted = location.query.get("loop");
  const run = runs.find((each) => each.id === wanted) ?? runs.findLast((each) => each.step === step) ?? runs.at(-1);
  const status = location.query.get("iterations");
  const [text, setText] = useState("");
  const search = useDeferredValue(text).trim();
  const { summary, error, at, load } = usePages(id, { run: run?.id ?? "", status, text: search }, timeline.seq);
  const narrow = useIsNarrow();
  const canRun = useHasScope("run");
  const canRetry = canRun && summary?.can_retry === true;
  const set = (changes: Record<string, string | null>) => navigate(withQuery(location, changes), { replace: true });
  if (run === undefined) return null;
  return (
    <div className="iterations">
      <div className="event-filters">
        {runs.length > 1 && (
          <select className="input" aria-label="Loop" value={run.id} onChange={(event) => set({ loop: event.target.value })}>
            {runs.map((each) => <option key={each.id} value={each.id}>{each.id} {each.status}</option>)}
          </select>
        )}
        <Button small aria-pressed={status === null} onClick={() => set({ iterations: null })}>All {summary?.count.toLocaleString() ?? ""}</Button>
        {STATUSES.map((each) => (
          <Button key={each} small aria-pressed={status === each} onClick={() => set({ iterations: status === each ? null : each })}>
            {statusName(each, run)} {summary?.counts[each]?.toLocaleString() ?? ""}
          </Button>
        ))}
        <input className="input" type="search" aria-label="Search items and errors" placeholder="Item, number or error" value={text} onChange={(event) => setText(event.target.value)} />
        <span className="soft numbers grow" role="status">{summary !== null && `${summary.found.toLocaleString()} found`}</span>
        {canRetry && <RetryFailed timeline={timeline} run={run} />}
      </div>
      {error !== undefined && <ErrorNotice error={error} />}
      {summary === null && error === undefined && <SkeletonRows rows={4} />}
      {summary?.found === 0 && <EmptyState title="No matching iterations" />}
      {summary !== null && summary.found > 0 && (
        <VirtualRows
          key={`${run.id} ${status ?? ""} ${search}`}
          className="iteration-rows" label="Iterations" count={summary.found} rowHeight={narrow ? 52 : 32} onVisible={load}
          row={(place, style) => {
            const iteration = at(place);
            if (iteration === undefined) return <div key={place} role="listitem" className="iteration-row faint" style={style}>…</div>;
            return <IterationRow key={place} execution={id} run={run} iteration={iteration} canRetry={canRetry} style={style} />;
          }}
        />
      )}
    </div>
  );
}
