/** The output of a task or a step: its data or a reference to it, the fields of the tool, or the error. */

import { DataView } from "./data/DataView";
import { isObject } from "./data/shapes";
import { FailureView } from "./FailureView";

export function OutputView({ execution, output }: { execution: string; output: unknown }) {
  if (!isObject(output)) return <span className="faint">none</span>;
  const { data, ref, error, own } = output;
  return (
    <div className="stack">
      {isObject(error) && <FailureView kind={String(error.kind)} message={String(error.message)} details={error.details} cause={error.cause} />}
      {ref != null ? <DataView execution={execution} value={ref} /> : data != null && <DataView execution={execution} value={data} />}
      {isObject(own) && Object.keys(own).length > 0 && <DataView execution={execution} value={own} />}
      {data == null && ref == null && error == null && <span className="faint">nothing</span>}
    </div>
  );
}
