/** What a task or a step gave back: data or a reference to it, the tool's own part, or why there is none. */

import { DataView } from "./data/DataView";
import { isMapping } from "./data/shapes";
import { FailureView } from "./FailureView";

export function OutputView({ execution, output }: { execution: string; output: unknown }) {
  if (!isMapping(output)) return <span className="faint">none</span>;
  const { data, ref, error, own } = output;
  return (
    <div className="stack">
      {isMapping(error) && <FailureView kind={String(error.kind)} message={String(error.message)} details={error.details} />}
      {ref != null ? <DataView execution={execution} value={ref} /> : data != null && <DataView execution={execution} value={data} />}
      {isMapping(own) && Object.keys(own).length > 0 && <DataView execution={execution} value={own} />}
      {data == null && ref == null && error == null && <span className="faint">nothing</span>}
    </div>
  );
}
