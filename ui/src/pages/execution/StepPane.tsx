import { useState } from "react";
import { command, isLive } from "../../api/commands";
import type { RunBar, Timeline } from "../../api/types";
import { Link } from "../../app/router";
import { useMay } from "../../app/session";
import { StatusBadge } from "../../design/Badge";
import { Button } from "../../design/Button";
import { SkeletonRows } from "../../design/Skeleton";
import { duration, secondsBetween } from "../../design/times";
import { useNow } from "../../design/useNow";
import { Attempts } from "./Attempts";
import { FailureView } from "./FailureView";
import { OutputView } from "./OutputView";
import { JsonTree } from "./data/JsonTree";
import { isMapping } from "./data/shapes";
import { countsAt } from "./overlayAt";
import type { Cursor } from "./useCursor";
import { useFact } from "./useFact";

interface StepProps {
  timeline: Timeline;
  step: string;
  cursor: Cursor;
}

function Given({ id, run }: { id: string; run: RunBar }) {
  const { data } = useFact(id, run.scheduled_seq);
  const input = data?.data.input;
  return (
    <section>
      <h3 className="label">Input</h3>
      {data === undefined ? <SkeletonRows rows={1} /> : isMapping(input) && Object.keys(input).length > 0 ? <JsonTree value={input} /> : <span className="faint">none</span>}
    </section>
  );
}

/** A step without a loop gives what its last call gave, and its own fact does not say it again. */
function CameBack({ id, run }: { id: string; run: RunBar }) {
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

function RunFacts({ run, timeline }: { run: RunBar; timeline: Timeline }) {
  const { iterations } = run;
  const going = run.ended_at == null && isLive(timeline.status);
  const now = useNow(500, going);
  const seconds = run.started_at == null ? null : secondsBetween(run.started_at, run.ended_at ?? (going ? now : timeline.updated_at));
  return (
    <div className="row wrap">
      <StatusBadge status={run.why == null ? run.status : "waiting"} />
      {run.handled === true && <span className="mini" title="An arc has taken the failure">handled</span>}
      {run.why != null && <span>{run.why}</span>}
      {run.ended_at != null === (run.status !== "running") && <span className="numbers">{duration(seconds)}</span>}
      {iterations != null && (
        <span className="numbers">
          {iterations.succeeded.toLocaleString()} of {iterations.count.toLocaleString()} iterations
          {iterations.failed > 0 && <b className="bad">, {iterations.failed.toLocaleString()} failed</b>}
          {iterations.inside != null && `, ${iterations.inside.succeeded.toLocaleString()} of ${iterations.inside.count.toLocaleString()} inside`}
        </span>
      )}
      {run.retry_of != null && <span className="soft">takes up {run.retry_of}</span>}
      {run.child != null && <Link to={`/executions/${run.child}`}>the playbook it called</Link>}
    </div>
  );
}

/** A run that goes on at this moment, whatever became of it. */
function asOf(run: RunBar, timeline: Timeline, seq: number): RunBar {
  const line = timeline.steps.find((each) => each.step === run.step);
  const counts = line === undefined ? null : countsAt(line, timeline.counts, seq);
  const { total: count = 0, done: succeeded = 0, lost: failed = 0 } = counts ?? {};
  const iterations = run.iterations == null ? null : { count, succeeded, failed };
  return { ...run, status: "running", handled: false, why: null, iterations };
}

function RetryHere({ timeline, run }: { timeline: Timeline; run: RunBar }) {
  const may = useMay("run");
  if (!may || run.status !== "error" || !["error", "cancelled"].includes(timeline.status)) return null;
  const retry = (fromStart: boolean) => void command(timeline.execution_id, "retry", { step: run.step, from_start: fromStart });
  return (
    <div className="row wrap">
      <Button small look="primary" onClick={() => retry(false)}>Retry from the task that failed</Button>
      <Button small onClick={() => retry(true)}>Retry the step from its start</Button>
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
        <p className="soft">{later === undefined ? "It has not run. The tab Why says what it waits for." : "It has not run yet at this moment."}</p>
        {later !== undefined && <span><Button small onClick={() => cursor.move(later.scheduled_seq)}>Go to its first run</Button></span>}
      </div>
    );
  }
  const over = run.ended_seq != null && run.ended_seq <= cursor.seq;
  return (
    <div className="stack">
      <div className="row wrap">
        <h2 className="grow">{run.id}</h2>
        {runs.length > 1 && (
          <select className="input run-choice" aria-label="Run" value={run.id} onChange={(event) => setChosen(event.target.value)}>
            {runs.map((each) => <option key={each.id} value={each.id}>{each.id} {each.status}</option>)}
          </select>
        )}
        <Button small look="quiet" onClick={() => cursor.move(run.scheduled_seq)}>Begin</Button>
        {run.ended_seq != null && <Button small look="quiet" onClick={() => cursor.move(run.ended_seq ?? null)}>End</Button>}
      </div>
      <RunFacts run={over || cursor.live ? run : asOf(run, timeline, cursor.seq)} timeline={timeline} />
      {over && run.error != null && <FailureView {...run.error} />}
      {over && <RetryHere timeline={timeline} run={run} />}
      <Given id={timeline.execution_id} run={run} />
      {over && <CameBack id={timeline.execution_id} run={run} />}
      <Attempts key={run.id} execution={timeline.execution_id} run={run} cursor={cursor} />
    </div>
  );
}
