import { useState } from "react";
import type { CallBar, RunBar, RunningCall } from "../../api/types";
import { Link } from "../../app/router";
import { toneOf } from "../../design/Badge";
import { SkeletonRows } from "../../design/Skeleton";
import { duration, secondsBetween } from "../../design/time";
import { useNow } from "../../design/useNow";
import { OutputView } from "./OutputView";
import type { Cursor } from "./useCursor";
import { useFact } from "./useFact";

/** The iteration of a call: its number and its item. */
function Item({ id, item }: { id: string; item: string | undefined }) {
  const iteration = /\[\d+\](?=\/\d+$)/.exec(id)?.[0];
  if (iteration === undefined) return null;
  return <span className="attempt-item"><code>{iteration}</code> {item !== undefined && item !== "" && <code className="cut" title={item}>{item}</code>}</span>;
}

interface CallProps {
  execution: string;
  call: CallBar;
  onPick: (seq: number) => void;
}

function CallOutput({ execution, seq }: { execution: string; seq: number }) {
  const { data } = useFact(execution, seq);
  return <div className="call-output">{data === undefined ? <SkeletonRows rows={1} /> : <OutputView execution={execution} output={data.data.output} />}</div>;
}

/** One call. Expanded, it shows its output and what it printed. */
function Call({ execution, call, onPick }: CallProps) {
  const [open, setOpen] = useState(false);
  return (
    <li>
      <div className="call">
        <button type="button" className="gantt-fold" aria-expanded={open} aria-label={`Output of ${call.id}`} onClick={() => setOpen(!open)}>
          {open ? "▾" : "▸"}
        </button>
        <button type="button" className="attempt" onClick={() => onPick(call.seq)}>
          <span className={`event-dot ${toneOf(call.status)}`} aria-hidden="true" />
          <code>{call.task}</code>
          <Item id={call.id} item={call.item} />
          <span className="soft">{call.status}, {call.directive}{call.attempt > 1 && `, attempt ${call.attempt}`}</span>
          <span className="faint numbers">{duration((call.ms ?? 0) / 1000)}</span>
          {call.error != null && <span className="attempt-error bad">{call.error}</span>}
        </button>
      </div>
      {open && <CallOutput execution={execution} seq={call.seq} />}
      {open && <Link className="call-logs" to={`/executions/${execution}?tab=logs&log=${encodeURIComponent(call.id)}`}>Logs of this call</Link>}
    </li>
  );
}

/** Calls that take long, while they run. */
function RunningCalls({ run }: { run: RunBar }) {
  const calls: readonly RunningCall[] = run.running ?? [];
  const now = useNow(500, calls.length > 0);
  const left = run.running_left_out ?? 0;
  if (calls.length === 0) return null;
  return (
    <section>
      <h3 className="label">Running</h3>
      <ul className="attempts">
        {calls.map((call) => (
          <li key={call.id} className="attempt">
            <span className={`event-dot ${toneOf("running")}`} aria-hidden="true" />
            <code>{call.task}</code>
            <Item id={call.id} item={call.item} />
            {(call.attempt ?? 1) > 1 && <span className="soft">attempt {call.attempt}</span>}
            <span className="faint numbers">{duration(secondsBetween(call.since, now))}</span>
            {call.worker !== undefined && call.worker !== "" && <span className="soft">on {call.worker}</span>}
          </li>
        ))}
        {left > 0 && <li className="faint">{left.toLocaleString()} more</li>}
      </ul>
    </section>
  );
}

interface CallsProps {
  execution: string;
  run: RunBar;
  cursor: Cursor;
}

/** The calls of a run. For a loop, only failed and retried calls, and those that run now. */
export function Calls({ execution, run, cursor }: CallsProps) {
  return (
    <>
      {cursor.live && <RunningCalls run={run} />}
      <EndedCalls execution={execution} run={run} cursor={cursor} />
    </>
  );
}

function EndedCalls({ execution, run, cursor }: CallsProps) {
  const calls = (run.calls ?? []).filter((call) => call.seq <= cursor.seq);
  if (calls.length === 0) return null;
  const left = run.calls_left_out ?? 0;
  return (
    <section>
      <h3 className="label">{run.iterations == null ? "Calls" : "Failed and retried calls"}</h3>
      <ul className="attempts">
        {calls.map((call) => <Call key={call.seq} execution={execution} call={call} onPick={cursor.move} />)}
        {left > 0 && <li className="faint">{left.toLocaleString()} earlier calls are in the events</li>}
      </ul>
    </section>
  );
}
