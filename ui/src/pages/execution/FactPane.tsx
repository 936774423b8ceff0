import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { wholeTime } from "../../design/time";
import { FailureView } from "./FailureView";
import { OutputView } from "./OutputView";
import { Changes } from "./Changes";
import { JsonTree } from "./data/JsonTree";
import { isObject } from "./data/shapes";
import type { MomentState } from "./useMoment";

const SHOWN_SEPARATELY = new Set(["output", "error", "set"]);

/** The fact at the cursor: its recorded data, and its changes. */
export function FactPane({ execution, state }: { execution: string; state: MomentState }) {
  const { moment, error, fresh } = state;
  if (error !== undefined) return <ErrorNotice error={error} />;
  if (moment === null) return <SkeletonRows rows={5} />;
  const { fact, changes } = moment;
  const { output, error: failure } = fact.data;
  const rest = Object.fromEntries(Object.entries(fact.data).filter(([key]) => !SHOWN_SEPARATELY.has(key)));
  return (
    <div className={`stack${fresh ? "" : " stale"}`}>
      <div className="row wrap">
        <h2>{fact.name}</h2>
        <span className="faint numbers">fact {fact.seq.toLocaleString()}, {wholeTime(fact.at)}</span>
      </div>
      {isObject(failure) && <FailureView kind={String(failure.kind)} message={String(failure.message)} details={failure.details} cause={failure.cause} />}
      {changes.length > 0 && <Changes changes={changes} />}
      {output !== undefined && (
        <section>
          <h3 className="label">Output</h3>
          <OutputView key={fact.seq} execution={execution} output={output} />
        </section>
      )}
      <section>
        <h3 className="label">Recorded</h3>
        <JsonTree key={fact.seq} value={rest} level={1} />
      </section>
    </div>
  );
}
