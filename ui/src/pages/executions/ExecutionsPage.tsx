import { useCallback, useMemo, useState } from "react";
import { isLive } from "../../api/commands";
import type { Head } from "../../api/types";
import { Link, changed, navigate } from "../../app/router";
import { Empty } from "../../design/Empty";
import { Failed } from "../../design/Failed";
import { Skeleton } from "../../design/Skeleton";
import { VirtualRows } from "../../design/VirtualRows";
import { useIsNarrow } from "../../design/useMedia";
import { useNow } from "../../design/useNow";
import type { PageProps } from "../../routes";
import { CancelDialog } from "./CancelDialog";
import { ExecutionRow } from "./ExecutionRow";
import { Filters } from "./Filters";
import "./executions.css";
import type { Filter } from "./heads";
import { useGlances } from "./useGlances";
import { useHeads } from "./useHeads";

const NEAR_THE_END = 20; // rows: then the next page is read

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No execution fits">Take a filter away to see more.</Empty>;
  return (
    <Empty
      title="Nothing has run yet"
      command="noetl init && noetl run hello.yaml"
      action={<Link className="button primary" to="/playbooks">To the playbooks</Link>}
    >
      Register a playbook and run it here, or run one from the shell on the same database.
    </Empty>
  );
}

export default function ExecutionsPage({ place }: PageProps) {
  const filter = useMemo<Filter>(
    () => ({
      status: place.query.get("status"),
      path: place.query.get("path"),
      open: place.query.get("open") === "true",
    }),
    [place.query],
  );
  const { heads, error, more, reload } = useHeads(filter);
  const { glances, look } = useGlances();
  const [cancelling, setCancelling] = useState<Head | null>(null);
  const narrow = useIsNarrow();
  const now = useNow(1000, heads?.items.some((head) => isLive(head.status)) ?? false);
  const onSight = useCallback(
    (first: number, last: number) => {
      if (heads === null) return;
      look(heads.items.slice(first, last + 1));
      if (last > heads.items.length - NEAR_THE_END) more();
    },
    [heads, look, more],
  );
  const filtered = filter.status !== null || filter.path !== null || filter.open;
  return (
    <div className="page executions">
      <div className="page-head">
        <h1 className="grow">Executions</h1>
        <Filters filter={filter} onChange={(changes) => navigate(changed(place, changes))} />
      </div>
      {error !== undefined && <Failed error={error} onRetry={reload} />}
      <div className="card executions-list">
        {!narrow && (
          <div className="execution-head" aria-hidden="true">
            <span>Status</span><span>Playbook</span><span>Steps</span><span>Started</span><span>Duration</span><span>By</span><span />
          </div>
        )}
        {heads === null && error === undefined && (
          <div className="stack executions-waiting">{Array.from({ length: 8 }, (_, row) => <Skeleton key={row} height={28} />)}</div>
        )}
        {heads?.items.length === 0 && <Nothing filtered={filtered} />}
        {heads !== null && heads.items.length > 0 && (
          <VirtualRows
            className="executions-rows"
            label="Executions"
            count={heads.items.length}
            rowHeight={narrow ? 92 : 54}
            onSight={onSight}
            row={(row, style) => {
              const head = heads.items[row];
              if (head === undefined) return null;
              return (
                <ExecutionRow
                  key={head.execution_id}
                  head={head}
                  glance={glances.get(head.execution_id)}
                  now={now}
                  style={style}
                  onCancel={setCancelling}
                />
              );
            }}
          />
        )}
      </div>
      {cancelling !== null && (
        <CancelDialog id={cancelling.execution_id} path={cancelling.path} onClose={() => setCancelling(null)} />
      )}
    </div>
  );
}
