import { useCallback, useMemo, useState } from "react";
import { isLive } from "../../api/commands";
import type { Head } from "../../api/types";
import { Link, withQuery, navigate } from "../../app/router";
import { EmptyState } from "../../design/EmptyState";
import { ErrorNotice } from "../../design/ErrorNotice";
import { Skeleton } from "../../design/Skeleton";
import { VirtualRows } from "../../design/VirtualRows";
import { useIsNarrow } from "../../design/useMediaQuery";
import { useNow } from "../../design/useNow";
import type { PageProps } from "../../routes";
import { CancelDialog } from "./CancelDialog";
import { ExecutionRow } from "./ExecutionRow";
import { Filters } from "./Filters";
import "./executions.css";
import type { Filter } from "./heads";
import { useGlances } from "./useGlances";
import { useHeads } from "./useHeads";

const PREFETCH_ROWS = 20; // load the next page when this close to the end

function NoExecutions({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyState title="No matching executions">Remove a filter to see more.</EmptyState>;
  return (
    <EmptyState
      title="No executions yet"
      command="noetl init && noetl run hello.yaml"
      action={<Link className="button primary" to="/playbooks">Go to playbooks</Link>}
    >
      Register and run a playbook here, or run one on the command line with the same database.
    </EmptyState>
  );
}

export default function ExecutionsPage({ location }: PageProps) {
  const filter = useMemo<Filter>(
    () => ({
      status: location.query.get("status"),
      path: location.query.get("path"),
      open: location.query.get("open") === "true",
    }),
    [location.query],
  );
  const { heads, error, loadMore, reload } = useHeads(filter);
  const { glances, load } = useGlances();
  const [cancelling, setCancelling] = useState<Head | null>(null);
  const narrow = useIsNarrow();
  const now = useNow(1000, heads?.items.some((head) => isLive(head.status)) ?? false);
  const onVisible = useCallback(
    (first: number, last: number) => {
      if (heads === null) return;
      load(heads.items.slice(first, last + 1));
      if (last > heads.items.length - PREFETCH_ROWS) loadMore();
    },
    [heads, load, loadMore],
  );
  const filtered = filter.status !== null || filter.path !== null || filter.open;
  return (
    <div className="page executions">
      <div className="page-head">
        <h1 className="grow">Executions</h1>
        <Filters filter={filter} onChange={(changes) => navigate(withQuery(location, changes))} />
      </div>
      {error !== undefined && <ErrorNotice error={error} onRetry={reload} />}
      <div className="card executions-list">
        {!narrow && (
          <div className="execution-head" aria-hidden="true">
            <span>Status</span><span>Playbook</span><span>Steps</span><span>Started</span><span>Duration</span><span>By</span><span />
          </div>
        )}
        {heads === null && error === undefined && (
          <div className="stack executions-waiting">{Array.from({ length: 8 }, (_, row) => <Skeleton key={row} height={28} />)}</div>
        )}
        {heads?.items.length === 0 && <NoExecutions filtered={filtered} />}
        {heads !== null && heads.items.length > 0 && (
          <VirtualRows
            className="executions-rows"
            label="Executions"
            count={heads.items.length}
            rowHeight={narrow ? 92 : 54}
            onVisible={onVisible}
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
