import { useState } from "react";
import type { CallBar, RunBar } from "../../api/types";
import { toneOf } from "../../design/Badge";
import { SkeletonRows } from "../../design/Skeleton";
import { duration } from "../../design/time";
import { OutputView } from "./OutputView";
import type { Cursor } from "./useCursor";
import { useFact } from "./useFact";

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
          <code className="cut">{call.task}</code>
          <span className="soft">{call.status}, {call.directive}{call.attempt > 1 && `, attempt ${call.attempt}`}</span>
          <span className="faint numbers">{duration((call.ms ?? 0) / 1000)}</span>
          {call.error != null && <span className="bad cut">{call.error}</span>}
        </button>
      </div>
      {open && <CallOutput execution={execution} seq={call.seq} />}
    </li>
  );
}

interface CallsProps {
  execution: string;
  run: RunBar;
  cursor: Cursor;
}

/** The calls of a run. For a loop, only failed and retried calls. */
export function Calls({ execution, run, cursor }: CallsProps) {
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
