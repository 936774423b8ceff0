import { useState } from "react";
import { sendCommand, heldAs, isHeld, isLive, reasonOf, waitsForShare } from "../../api/commands";
import type { RunBar, Timeline } from "../../api/types";
import { Link } from "../../app/router";
import { useHasScope } from "../../app/session";
import { StatusBadge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { SkeletonRows } from "../../design/Skeleton";
import { duration, secondsBetween } from "../../design/time";
import { useNow } from "../../design/useNow";
import { Calls } from "./Calls";
import { ChildFailure } from "./children/ChildFailure";
import { FailureView } from "./FailureView";
import { OutputView } from "./OutputView";
import { JsonTree } from "./data/JsonTree";
import { isObject } from "./data/shapes";
import { countsAt } from "./overlayAt";
import type { Cursor } from "./useCursor";
import { useFact } from "./useFact";

interface StepProps {
  timeline: Timeline;
  step: string;
  cursor: Cursor;
}

function InputSection({ id, run }: { id: string; run: RunBar }) {
  const { data } = useFact(id, run.scheduled_seq);
  const input = data?.data.input;
  return (
    <section>
      <h3 className="label">Input</h3>
      {data === undefined ? <SkeletonRows rows={1} /> : isObject(input) && Object.keys(input).length > 0 ? <JsonTree value={input} /> : <span className="faint">none</span>}
    </section>
  );
}

/** The output of a step without a loop is that of its last call; the fact of the step does not repeat it. */
function OutputSection({ id, run }: { id: string; run: RunBar }) {
  const ended = useFact(id, run.ended_seq);
  const own = ended.data?.data.output;
  const lastCall = run.calls?.at(-1)?.seq;
  const call = useFact(id, ended.data !== undefined && own === undefined ? lastCall : null);
  if (run.ended_seq == null) return null;
  const waiting = ended.data === undefined || (own === undefined && lastCall !== undefined && call.data === undefined);
  return (
    <section>
      <h3 className="label">Output</h3>
      {waiting ? <SkeletonRows rows={2} /> : <OutputView key={run.id} execution={id} output={own ?? call.data?.data.output} />}
    </section>
  );
}

/** Each kind of iteration has its own number: a failed one is not done. */
function IterationCounts({ run, iterations }: { run: RunBar; iterations: NonNullable<RunBar["iterations"]> }) {
  const { count, succeeded, failed, inside } = iterations;
  const running = (run.running?.length ?? 0) + (run.running_left_out ?? 0);
  const waiting = count - succeeded - failed - running;
  const limit = run.width ?? 0;
  const isOver = run.ended_at != null && run.status !== "running"; // at an earlier moment it still runs
  return (
    <span className="row wrap numbers counts">
      <span>{count.toLocaleString()} iterations:</span>
      <span className="count-ok">{succeeded.toLocaleString()} ok</span>
      {failed > 0 && <b className="bad">{failed.toLocaleString()} failed</b>}
      {(run.retries ?? 0) > 0 && <span>{run.retries?.toLocaleString()} retried</span>}
      {running > 0 && <span className="count-running">{running.toLocaleString()} running</span>}
      {waiting > 0 && (
        <span className="soft">
          {waiting.toLocaleString()} {isOver ? "not run" : "waiting"}
          {run.ended_at == null && limit > 0 && running >= limit && `, at most ${limit.toLocaleString()} at a time`}
        </span>
      )}
      {inside != null && <span>inside: {inside.succeeded.toLocaleString()} of {inside.count.toLocaleString()} ok{inside.failed > 0 && `, ${inside.failed.toLocaleString()} failed`}</span>}
    </span>
  );
}

function RunSummary({ run, timeline }: { run: RunBar; timeline: Timeline }) {
  const { iterations } = run;
  const running = run.ended_at == null && isLive(timeline.status) && !isHeld(timeline);
  const now = useNow(500, running);
  const seconds = run.started_at == null ? null : secondsBetween(run.started_at, run.ended_at ?? (running ? now : timeline.updated_at));
  return (
    <div className="row wrap">
      <StatusBadge status={statusNow(run, timeline)} />
      {run.handled === true && <span className="mini" title="An arc handles the failure">handled</span>}
      {run.why != null && <span>{reasonOf(run)}</span>}
      {run.ended_at != null === (run.status !== "running") && <span className="numbers">{duration(seconds)}</span>}
      {iterations != null && <IterationCounts run={run} iterations={iterations} />}
      {(run.lost ?? 0) > 0 && <span className="soft">{run.lost === 1 ? "1 lost worker" : `${run.lost?.toLocaleString()} lost workers`}</span>}
      {run.retry_of != null && <span className="soft">retry of {run.retry_of}</span>}
      {run.child != null && <Link to={`/executions/${run.child}`}>called playbook</Link>}
    </div>
  );
}

/** The status of a run in the words of the execution: it may be paused, interrupted or cancelled with it. */
function statusNow(run: RunBar, timeline: Timeline): string {
  if (run.status === "stopped" && timeline.status === "cancelled") return "cancelled";
  if (run.why == null || run.ended_at != null || waitsForShare(run.why)) return run.status;
  return run.why === timeline.why ? (heldAs(timeline) ?? timeline.status) : "waiting";
}

/** The run as it was at this moment, when it was still running. */
function asOf(run: RunBar, timeline: Timeline, seq: number): RunBar {
  const line = timeline.steps.find((each) => each.step === run.step);
  const counts = line === undefined ? null : countsAt(line, timeline.counts, seq);
  const { total: count = 0, done: succeeded = 0, lost: failed = 0 } = counts ?? {};
  const iterations = run.iterations == null ? null : { count, succeeded, failed };
  return { ...run, status: "running", handled: false, why: null, iterations };
}

function RetryButtons({ timeline, run }: { timeline: Timeline; run: RunBar }) {
  const canRun = useHasScope("run");
  if (!canRun || run.status !== "error" || !["error", "cancelled"].includes(timeline.status)) return null;
  const retry = (fromStart: boolean) => void sendCommand(timeline.execution_id, "retry", { step: run.step, from_start: fromStart });
  return (
    <div className="row wrap">
      <Button small variant="primary" onClick={() => retry(false)}>Retry from the failed task</Button>
      <Button small onClick={() => retry(true)}>Retry the whole step</Button>
    </div>
  );
}

export function StepPane({ timeline, step, cursor }: StepProps) {
  const [chosen, setChosen] = useState<string | null>(null);
  const line = timeline.steps.find((each) => each.step === step);
  const runs = (line?.runs ?? []).filter((run) => run.scheduled_seq <= cursor.seq);
  const run = runs.find((each) => each.id === chosen) ?? runs.at(-1);
  if (run === undefined) {
    const later = line?.runs[0];
    return (
      <div className="stack">
        <h2>{step}</h2>
        <p className="soft">{later === undefined ? "This step has not run. The Why tab shows what it waits for." : "This step has not run yet at this moment."}</p>
        {later !== undefined && <span><Button small onClick={() => cursor.move(later.scheduled_seq)}>Go to the first run</Button></span>}
      </div>
    );
  }
  const ended = run.ended_seq != null && run.ended_seq <= cursor.seq;
  return (
    <div className="stack">
      <div className="row wrap">
        <h2 className="run-name">{run.id}</h2>
        {runs.length > 1 && (
          <select className="input run-choice" aria-label="Run" value={run.id} onChange={(event) => setChosen(event.target.value)}>
            {runs.map((each) => <option key={each.id} value={each.id}>{each.id} {each.status}</option>)}
          </select>
        )}
        <Button small variant="quiet" onClick={() => cursor.move(run.scheduled_seq)}>Start</Button>
        {run.ended_seq != null && <Button small variant="quiet" onClick={() => cursor.move(run.ended_seq ?? null)}>End</Button>}
      </div>
      <RunSummary run={ended || cursor.live ? run : asOf(run, timeline, cursor.seq)} timeline={timeline} />
      {ended && run.error != null && <FailureView {...run.error} />}
      {ended && run.status === "error" && run.child != null && <ChildFailure id={run.child} />}
      {run.iterations != null && (
        <Link to={`/executions/${timeline.execution_id}?step=${encodeURIComponent(step)}&tab=iterations&loop=${encodeURIComponent(run.id)}`}>
          All iterations
        </Link>
      )}
      {ended && <RetryButtons timeline={timeline} run={run} />}
      <InputSection id={timeline.execution_id} run={run} />
      {ended && <OutputSection id={timeline.execution_id} run={run} />}
      <Calls key={run.id} execution={timeline.execution_id} run={run} cursor={cursor} />
    </div>
  );
}
