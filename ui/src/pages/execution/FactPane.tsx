import { Failed } from "../../design/Failed";
import { SkeletonRows } from "../../design/Skeleton";
import { wholeTime } from "../../design/times";
import { FailureView } from "./FailureView";
import { OutputView } from "./OutputView";
import { Changes } from "./Changes";
import { JsonTree } from "./data/JsonTree";
import { isMapping } from "./data/shapes";
import type { MomentShown } from "./useMoment";

const SHOWN_APART = new Set(["output", "error", "set"]);

/** The fact under the cursor: what was recorded, and what it changed. */
export function FactPane({ execution, shown }: { execution: string; shown: MomentShown }) {
  const { moment, error, fresh } = shown;
  if (error !== undefined) return <Failed error={error} />;
  if (moment === null) return <SkeletonRows rows={5} />;
  const { fact, changes } = moment;
  const { output, error: failure } = fact.data;
  const rest = Object.fromEntries(Object.entries(fact.data).filter(([key]) => !SHOWN_APART.has(key)));
  return (
    <div className={`stack${fresh ? "" : " stale"}`}>
      <div className="row wrap">
        <h2>{fact.name}</h2>
        <span className="faint numbers">fact {fact.seq.toLocaleString()}, {wholeTime(fact.at)}</span>
      </div>
      {isMapping(failure) && <FailureView kind={String(failure.kind)} message={String(failure.message)} details={failure.details} />}
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
