import type { RunBar } from "../../api/types";
import { toneOf } from "../../design/Badge";
import { duration } from "../../design/times";
import type { Cursor } from "./useCursor";

/** The calls of a run; of a loop only those that did not just go on. */
export function Attempts({ run, cursor }: { run: RunBar; cursor: Cursor }) {
  const calls = (run.calls ?? []).filter((call) => call.seq <= cursor.seq);
  if (calls.length === 0) return null;
  const left = run.calls_left_out ?? 0;
  return (
    <section>
      <h3 className="label">{run.iterations == null ? "Calls" : "Calls that failed or were tried again"}</h3>
      <ul className="attempts">
        {calls.map((call) => (
          <li key={call.seq}>
            <button type="button" className="attempt" onClick={() => cursor.move(call.seq)}>
              <span className={`event-dot ${toneOf(call.status)}`} aria-hidden="true" />
              <code className="cut">{call.task}</code>
              <span className="soft">{call.status}, {call.directive}{call.attempt > 1 && `, attempt ${call.attempt}`}</span>
              <span className="faint numbers">{duration((call.ms ?? 0) / 1000)}</span>
              {call.error != null && <span className="bad cut">{call.error}</span>}
            </button>
          </li>
        ))}
        {left > 0 && <li className="faint">{left.toLocaleString()} earlier ones are in the events</li>}
      </ul>
    </section>
  );
}
