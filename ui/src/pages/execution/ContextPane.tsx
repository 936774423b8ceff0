import { useMemo } from "react";
import { ErrorNotice } from "../../design/ErrorNotice";
import { SkeletonRows } from "../../design/Skeleton";
import { Changes } from "./Changes";
import { JsonTree } from "./data/JsonTree";
import type { MomentState } from "./useMoment";

/** ctx and workload at the cursor. */
export function ContextPane({ state }: { state: MomentState }) {
  const { moment, ctx, error, fresh } = state;
  const marked = useMemo(
    () => new Set((moment?.changes ?? []).map((change) => change.path.replace(/^ctx\./, ""))),
    [moment],
  );
  if (error !== undefined) return <ErrorNotice error={error} />;
  if (moment === null) return <SkeletonRows rows={5} />;
  return (
    <div className={`stack${fresh ? "" : " stale"}`}>
      <h2 className="visually-hidden">Context</h2>
      {moment.changes.length > 0 && <Changes changes={moment.changes} />}
      <section>
        <h3 className="label">ctx</h3>
        {Object.keys(ctx).length === 0 ? (
          <p className="faint">Nothing has been set yet.</p>
        ) : (
          <JsonTree key={moment.ctx_seq} value={ctx} marked={marked} />
        )}
      </section>
      <section>
        <h3 className="label">workload</h3>
        <JsonTree value={moment.workload} level={1} />
      </section>
    </div>
  );
}
